// The text is LLVM's: variables of shared memory stand before the entries that use them, each entry ends with a brace
// at the beginning of a line. The assembler's words are those of `ptxas -v`.
#include "compiler/emit/device/resources.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace heddle {

namespace {

// Table of compute capabilities in the CUDA programming guide; the same for all that targets are for.
constexpr int64_t most_warps = 64, most_blocks = 32, register_file = 65536, registers_at_once = 256, warps_at_once = 4;
constexpr int64_t shared_at_once = 128, shared_of_system = 1024; // of each block

bool in_name(char c) { return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.'; }

bool mentions(llvm::StringRef text, llvm::StringRef name) {
  for (size_t at = text.find(name); at != llvm::StringRef::npos; at = text.find(name, at + 1)) {
    size_t end = at + name.size();
    if ((at == 0 || !in_name(text[at - 1])) && (end == text.size() || !in_name(text[end])))
      return true;
  }
  return false;
}

/// `name[bytes]` of a line that declares shared memory.
std::optional<std::pair<std::string, int64_t>> shared_variable(llvm::StringRef line) {
  line = line.trim();
  size_t open = line.rfind('[');
  if (!line.contains(".shared ") || !line.contains(".align") || open == llvm::StringRef::npos)
    return std::nullopt;
  llvm::StringRef name = line.take_front(open).rtrim();
  name = name.substr(name.find_last_of(" \t") + 1);
  int64_t bytes = 0;
  if (line.substr(open + 1).consumeInteger(10, bytes))
    return std::nullopt;
  return std::pair(name.str(), bytes);
}

/// The number before `what`, where there is one.
std::optional<int64_t> number_before(llvm::StringRef text, llvm::StringRef what) {
  size_t at = text.find(what);
  if (at == llvm::StringRef::npos)
    return std::nullopt;
  llvm::StringRef before = text.take_front(at).rtrim();
  int64_t value = 0;
  if (before.substr(before.find_last_of(" ,:") + 1).getAsInteger(10, value))
    return std::nullopt;
  return value;
}

int64_t up_to(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

} // namespace

std::map<std::string, Resources> resources_in(const std::string &ptx) {
  std::map<std::string, Resources> out;
  std::map<std::string, int64_t> shared;
  llvm::StringRef left = ptx;
  while (!left.empty()) {
    llvm::StringRef line;
    llvm::StringRef here = left;
    std::tie(line, left) = left.split('\n');
    if (auto variable = shared_variable(line))
      shared.insert(*variable);
    size_t entry = line.find(".entry ");
    if (entry == llvm::StringRef::npos)
      continue;
    llvm::StringRef name = line.substr(entry + 7).take_while(in_name), body = here.take_front(here.find("\n}"));
    Resources &found = out[name.str()];
    for (llvm::StringRef rest = body; !rest.empty();) {
      llvm::StringRef inner;
      std::tie(inner, rest) = rest.split('\n');
      if (auto variable = shared_variable(inner))
        found.shared += variable->second;
    }
    for (auto &[variable, bytes] : shared)
      if (mentions(body, variable))
        found.shared += bytes;
    found.tensor = body.contains("mma.sync");
    left = here.drop_front(body.size());
  }
  return out;
}

Result<Assembled> assemble(const std::string &ptxas, const std::string &ptx, const Gpu &gpu) {
  llvm::SmallString<128> in, out, words;
  if (llvm::sys::fs::createTemporaryFile("heddle", "ptx", in) ||
      llvm::sys::fs::createTemporaryFile("heddle", "cubin", out) ||
      llvm::sys::fs::createTemporaryFile("heddle", "txt", words))
    return Error{"there is no room for the files of NVIDIA's assembler in the system's folder for temporary files"};
  llvm::FileRemover in_goes(in), out_goes(out), words_go(words);
  {
    std::error_code failed;
    llvm::raw_fd_ostream file(in, failed);
    file << ptx;
    file.close();
    if (failed || file.has_error()) {
      file.clear_error();
      return Error{"the PTX for NVIDIA's assembler cannot be written to the system's folder for temporary files"};
    }
  }
  std::string target = "sm_" + std::to_string(gpu.sm), why;
  llvm::StringRef arguments[] = {ptxas, "-v", "--gpu-name", target, in, "-o", out};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), words.str(), words.str()};
  int code = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, 0, 0, &why);
  auto said = llvm::MemoryBuffer::getFile(words), made = llvm::MemoryBuffer::getFile(out);
  std::string text = said ? (*said)->getBuffer().str() : "";
  if (code != 0 || !made)
    return Error{ptxas + " does not assemble the kernels for " + target + ": " +
                 (why.empty() ? llvm::StringRef(text).take_until([](char c) { return c == '\n'; }).str() : why) +
                 "; HEDDLE_PTXAS=none does without it"};
  Assembled all;
  all.cubin = (*made)->getBuffer().str();
  all.launches = resources_in(ptx);
  std::string name;
  for (llvm::StringRef rest = text; !rest.empty();) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    if (size_t at = line.find("Compiling entry function '"); at != llvm::StringRef::npos)
      name = line.substr(at + 26).take_until([](char c) { return c == '\''; }).str();
    auto launch = all.launches.find(name);
    if (launch == all.launches.end())
      continue;
    if (auto registers = number_before(line, " registers"))
      launch->second.registers = int(*registers);
    auto stores = number_before(line, " bytes spill stores"), loads = number_before(line, " bytes spill loads");
    if (stores && loads)
      launch->second.spilled = *stores + *loads;
  }
  return all;
}

Occupancy occupancy(const Gpu &gpu, int64_t threads, const Resources &resources) {
  int64_t warps = (threads + 31) / 32, blocks = std::min(most_blocks, most_warps / warps);
  if (resources.registers) {
    int64_t of_warp = up_to(int64_t(*resources.registers) * 32, registers_at_once);
    blocks = std::min(blocks, register_file / std::max<int64_t>(of_warp, 1) / warps_at_once * warps_at_once / warps);
  }
  int64_t shared = up_to(resources.shared + shared_of_system, shared_at_once);
  blocks = std::min(blocks, (gpu.shared_most + shared_of_system) / shared);
  return {blocks, double(blocks * warps) / double(most_warps)};
}

} // namespace heddle
