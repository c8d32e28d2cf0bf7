// What a file says about a definition: the comment beside it, its first lines.
#include "dsl/server/symbols.h"

#include <algorithm>

namespace heddle::server {

using syntax::Comment;

static int line_begin(std::string_view text, int at) {
  size_t newline = at > 0 ? text.rfind('\n', at - 1) : std::string_view::npos;
  return newline == std::string_view::npos ? 0 : static_cast<int>(newline) + 1;
}

std::string FileSymbols::comment(const Definition &definition) const {
  auto words = [&](const Comment &comment) {
    std::string out = text.substr(comment.span.begin + 1, comment.span.end - comment.span.begin - 1);
    out.erase(0, std::min(out.find_first_not_of(' '), out.size()));
    while (!out.empty() && (out.back() == ' ' || out.back() == '\r'))
      out.pop_back();
    return out;
  };
  // Lines of comments that end right above the declaration's line.
  int first = line_begin(text, definition.whole.begin);
  std::string above;
  for (size_t i = tree.comments.size(); i-- > 0;) {
    const Comment &comment = tree.comments[i];
    if (comment.span.begin >= first)
      continue;
    int begin = line_begin(text, comment.span.begin);
    if (!comment.alone || line_begin(text, first - 1) != begin)
      break;
    above = words(comment) + (above.empty() ? "" : "\n") + above;
    first = begin;
  }
  if (!above.empty())
    return above;
  // The comment at the end of the line on which the name or the declaration ends.
  for (const Comment &comment : tree.comments)
    if (!comment.alone &&
        (line_begin(text, comment.span.begin) == line_begin(text, definition.span.begin) ||
         line_begin(text, comment.span.begin) == line_begin(text, definition.whole.end)) &&
        comment.span.begin >= definition.span.end)
      return words(comment);
  return "";
}

std::string FileSymbols::signature(const Definition &d) const {
  int begin = d.whole.begin, end = d.whole.end;
  if (d.fn) {
    end = d.fn->results.empty() ? d.fn->name.span.end : d.fn->results.back().span.end;
    if (d.fn->results.size() > 1 && end < static_cast<int>(text.size()) && text[end] == ')')
      ++end;
  } else if (d.entry_point) {
    end = d.entry_point->results.empty() ? d.entry_point->name.span.end : d.entry_point->results.back().type.span.end;
  } else if (d.kind == Definition::module || d.kind == Definition::model) {
    const syntax::Module &module = *modules[d.module_number].tree;
    end = module.sizes.empty() ? module.name.span.end : module.sizes.back().span.end + 1;
  } else if (d.kind == Definition::iteration) {
    end = static_cast<int>(std::min(text.find('{', begin), text.size()));
  } else if (d.kind == Definition::config || d.kind == Definition::dim) {
    begin = d.span.begin; // one of several: up to the comma or the line's end
    end = begin;
    int depth = 0;
    while (end < static_cast<int>(text.size()) && text[end] != '\n' && text[end] != '#' &&
           !(text[end] == ',' && depth == 0)) {
      depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
      ++end;
    }
  }
  std::string out = text.substr(begin, std::max(0, end - begin));
  if (d.kind == Definition::config)
    out = "config " + out;
  if (d.kind == Definition::dim)
    out = "dim " + out;
  while (!out.empty() && (out.back() == ' ' || out.back() == '\n'))
    out.pop_back();
  size_t lines = 0, at = 0; // a long definition is shown by its beginning
  while (lines < 6 && (at = out.find('\n', at)) != std::string::npos) {
    ++lines;
    ++at;
  }
  return lines == 6 && at != std::string::npos ? out.substr(0, at) + "…" : out;
}

} // namespace heddle::server
