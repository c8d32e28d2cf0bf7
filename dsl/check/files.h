// Files, the prelude among them, and what they declare.
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Configs;
class Expressions;
class Requirements;

class Files : Services {
public:
  Files(Context &context, Expressions &expressions, Requirements &requirements, Configs &configs)
      : Services(context), context_(context), expressions_(expressions), requirements_(requirements),
        configs_(configs) {}

  FileScope *load_with_prelude(const syntax::File &tree);

private:
  FileScope *load(const syntax::File &tree, bool is_prelude);
  FileScope *used_file(const syntax::Name &name);
  void declare(FileScope &file, const syntax::Declaration &d);

  Context &context_;
  Expressions &expressions_;
  Requirements &requirements_;
  Configs &configs_;
  std::deque<FileScope> files_;
  std::deque<syntax::File> trees_;
  std::map<std::string, FileScope *> used_files_;
  std::vector<FileScope *> loading_; // each is used by the one before it
};

} // namespace heddle::checking
