// `generate`: texts from a library that has the entries for it (docs/generation.md), and with --score the
// log-probabilities of given ones. The search is the library's own.
#include "compiler/driver/commands.h"
#include "compiler/driver/library.h"
#include "compiler/driver/tensors.h"
#include "compiler/io/output.h"
#include "compiler/io/token_ids.h"

#include <cstdio>

namespace heddle {

/// A line per text.
static void print_texts(const TensorMap &results) {
  const HostTensor &texts = results.at("sequences");
  const HostTensor &scores = results.at("scores");
  for (int64_t row = 0; row < texts.shape[0]; ++row) {
    std::printf("%.4f:", read_element(scores.view(), row));
    for (int64_t i = 0; i < texts.shape[1]; ++i)
      std::printf(" %lld", (long long)read_element(texts.view(), row * texts.shape[1] + i));
    std::printf("\n");
  }
}

Status generate_command(const GenerateCommand &options) {
  if (!is_artifact(options.path))
    return Error{why_no_artifact(options.path, ": is not a compiled library; `heddle compile` makes one of a model")};
  if (!options.score && options.how.steps < 1)
    return Error{std::string(usage_mark) + "say with --steps how many tokens to generate at most"};
  Library::Generation how = options.how;
  for (const std::string &text : options.tokens) {
    auto token = parse_token_id(text);
    if (!token)
      return Error{usage_mark + token.error().message};
    how.tokens.emplace_back(token->name, token->id);
  }
  auto calls = read_calls(options.in);
  if (!calls)
    return calls.error();
  if (calls->size() != 1)
    return Error{std::string(usage_mark) + "give one file to --in, or NAME=FILE.npy for each input"};
  auto library = Library::open(options.path, options.threads);
  if (!library)
    return library.error();
  if (Status place = try_to_write(options.out); !place)
    return place;
  auto results = options.score ? library->score((*calls)[0], how) : library->generate((*calls)[0], how);
  if (!results)
    return results.error();
  if (!options.out.empty())
    return write_tensors(options.out, *results);
  if (options.score)
    std::printf("%s", summary(*results).c_str());
  else
    print_texts(*results);
  return Done{};
}

} // namespace heddle
