// One check of a document for an editor: the messages with their places in every file concerned, and what each defined
// name turned out to be. Made from copies of all texts, so it may run in another thread than the requests.
#pragma once

#include "dsl/errors/diagnostics.h"
#include "dsl/server/symbols.h"
#include "dsl/server/texts.h"

namespace heddle::server {

struct Finding {
  std::string path; // of the file it is in
  int begin = 0, end = 0;
  Diagnostic diagnostic;
  std::string fix; // the text that cures it, in place of fix_begin .. fix_end; empty: none is known
  int fix_begin = 0, fix_end = 0;
};

struct Analysis {
  std::string path;
  int64_t version = 0;
  std::vector<Finding> findings;
  std::string config_error;
  /// By file and qualified name of the definition: what it is. The first call or iteration speaks for all.
  std::map<std::pair<std::string, std::string>, std::string> notes;
};

/// A file without a model is checked by itself, with the sizes of its modules and functions as symbols, and in every
/// model beside it that uses it.
Analysis analyse(const std::string &path, int64_t version, const Texts &texts);

} // namespace heddle::server
