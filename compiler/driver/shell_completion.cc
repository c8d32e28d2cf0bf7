// One list of words, three scripts. What a value may be is read off its name in `--help`: FILE and MODEL are paths, DIR
// and FOLDER folders, {a,b,c} is what CLI11 checks, and "with commas between" in an option's help makes it a list;
// other values (numbers, NAME=ID) are not guessed at.
#include "compiler/driver/manual.h"

#include <CLI/CLI.hpp>

#include <sstream>

namespace heddle {
namespace {

enum class Kind { flag, path, folder, words, other };

struct Word {
  std::vector<std::string> names; // "-o", "--output"; none: a positional word
  Kind kind = Kind::flag;
  std::vector<std::string> values; // of Kind::words
  std::string help;
  bool list = false; // of values, with commas between
  bool repeats = false;
};

struct Command {
  std::string name, help;
  std::vector<Word> words;
};

/// "a", "b" of "TEXT:{a,b}".
std::vector<std::string> checked_values(const std::string &type) {
  std::vector<std::string> out;
  size_t begin = type.find('{'), end = type.find('}');
  if (begin == type.npos || end == type.npos)
    return out;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string value; std::getline(list, value, ',');)
    out.push_back(value);
  return out;
}

Word word_of(const CLI::Option &option, const KnownValues &known) {
  Word out;
  for (const std::string &name : option.get_snames())
    out.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    out.names.push_back("--" + name);
  out.help = option.get_description();
  out.list = out.help.find("with commas between") != out.help.npos;
  out.repeats = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0)
    return out;
  std::string name = out.names.empty() ? option.get_name(true) : out.names.back();
  std::string type = option.get_option_text().empty() ? option.get_type_name() : option.get_option_text();
  auto has = [&](const char *part) { return type.find(part) != type.npos; };
  if (auto values = known.find(name); values != known.end())
    out.values = values->second;
  else
    out.values = checked_values(type);
  if (!out.values.empty())
    out.kind = Kind::words;
  else if (has("=") ? has("FILE") : has("FILE") || has("MODEL") || has(".json"))
    out.kind = Kind::path;
  else if (has("DIR") || has("FOLDER"))
    out.kind = Kind::folder;
  else
    out.kind = Kind::other;
  return out;
}

std::vector<Word> words_of(const CLI::App &app, const KnownValues &known) {
  std::vector<Word> out;
  for (const CLI::Option *option : app.get_options())
    out.push_back(word_of(*option, known));
  return out;
}

std::vector<Command> commands_of(const CLI::App &app, const KnownValues &known) {
  std::vector<Command> out;
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *sub) { return !sub->get_group().empty(); }))
    out.push_back({command->get_name(), command->get_description(), words_of(*command, known)});
  return out;
}

std::string joined(const std::vector<std::string> &words, const char *separator = " ") {
  std::string out;
  for (const std::string &word : words)
    out += (out.empty() ? "" : separator) + word;
  return out;
}

/// `text` where a quoted string of the shell goes on: every character of `special` with `escape` before it.
std::string escaped(const std::string &text, std::string_view special, const char *escape) {
  std::string out;
  for (char c : text) {
    if (special.find(c) != special.npos)
      out += escape;
    out += c;
  }
  return out;
}

std::vector<std::string> all_names(const std::vector<Word> &words) {
  std::vector<std::string> out;
  for (const Word &word : words)
    out.insert(out.end(), word.names.begin(), word.names.end());
  return out;
}

// ---- bash: an empty answer means its own completion of paths (`-o default`) ----

// A word as the shell sees it: readline ends its own at "=" and ":", too, and replaces only what follows.
constexpr const char *bash_words = R"(# bash completion for heddle; made by `heddle completion bash`
_heddle_values() {  # of a list, where $1 is ",", the last one; else the only one
  local before= value
  [[ $1 && $current == *"$1"* ]] && before=${current%"$1"*}$1
  shift
  for value in "$@"; do
    value=$before$value
    [[ $value == "$current"* ]] && COMPREPLY+=("${value#"${current%"${current##*:}"}"}")
  done
}
_heddle() {
  local typed=${COMP_LINE:0:COMP_POINT} current previous
  current=${typed##*[[:space:]]}
  typed=${typed%"$current"}
  typed=${typed%"${typed##*[![:space:]]}"}
  previous=${typed##*[[:space:]]}
  if [[ $current == --*=* ]]; then
    previous=${current%%=*} current=${current#*=}
  fi
  COMPREPLY=()
)";

std::string bash_answer(const Word &word) {
  if (word.kind == Kind::words)
    return std::string("_heddle_values '") + (word.list ? "," : "") + "' " + joined(word.values) + "; ";
  if (word.kind == Kind::folder)
    return "compopt +o default -o dirnames; ";
  return word.kind == Kind::path ? "" : "compopt +o default; ";
}

std::string bash(const std::vector<Word> &top, const std::vector<Command> &commands) {
  std::ostringstream out;
  std::vector<std::string> first;
  for (const Command &command : commands)
    first.push_back(command.name);
  for (const std::string &name : all_names(top))
    first.push_back(name);
  out << bash_words << "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W '" << joined(first)
      << "' -- \"$current\"))\n"
      << "    return\n  fi\n  case ${COMP_WORDS[1]} in\n";
  for (const Command &command : commands) {
    out << "  " << command.name << ")\n    case $previous in\n";
    std::string positional;
    for (const Word &word : command.words)
      if (word.names.empty())
        positional = bash_answer(word);
      else if (word.kind != Kind::flag)
        out << "    " << joined(word.names, "|") << ") " << bash_answer(word) << "return ;;\n";
    out << "    esac\n    if [[ $current == -* ]]; then\n      COMPREPLY=($(compgen -W '"
        << joined(all_names(command.words)) << "' -- \"$current\"))\n";
    if (!positional.empty())
      out << "    else\n      " << positional << "\n";
    out << "    fi ;;\n";
  }
  out << "  esac\n}\ncomplete -o default -F _heddle heddle\n";
  return out.str();
}

// ---- zsh ----

std::string zsh_action(const Word &word) {
  switch (word.kind) {
  case Kind::words: {
    std::string values = escaped(joined(word.values), ":", "\\");
    return word.list ? "_sequence compadd - " + values : "(" + values + ")";
  }
  case Kind::path:
    return "_files";
  case Kind::folder:
    return "_files -/";
  default:
    return " ";
  }
}

/// "'(-o --output)'{-o,--output}'[help]:value:_files'", as _arguments wants it.
std::string zsh_spec(const Word &word) {
  std::string help = escaped(escaped(word.help, "[]:\\", "\\"), "'", "'\\'");
  if (word.names.empty())
    return "'" + std::string(word.repeats ? "*" : "") + ":" + help + ":" + zsh_action(word) + "'";
  std::string out = word.repeats ? "'*'" : word.names.size() == 1 ? "" : "'(" + joined(word.names) + ")'";
  out += word.names.size() == 1 ? word.names[0] : "{" + joined(word.names, ",") + "}";
  return out + "'[" + help + "]" + (word.kind == Kind::flag ? "" : ":value:" + zsh_action(word)) + "'";
}

std::string zsh(const std::vector<Word> &top, const std::vector<Command> &commands) {
  std::ostringstream out;
  out << "#compdef heddle\n# zsh completion for heddle; made by `heddle completion zsh`\n_heddle() {\n"
      << "  local context state state_descr line\n  typeset -A opt_args\n  _arguments -C \\\n";
  for (const Word &word : top)
    out << "    " << zsh_spec(word) << " \\\n";
  out << "    '1:command:->command' '*::argument:->argument'\n  case $state in\n  command)\n    local -a commands=(\n";
  for (const Command &command : commands)
    out << "      '" << command.name << ":" << escaped(escaped(command.help, ":\\", "\\"), "'", "'\\'") << "'\n";
  out << "    )\n    _describe command commands ;;\n  argument)\n    case $line[1] in\n";
  for (const Command &command : commands) {
    out << "    " << command.name << ")\n      _arguments";
    for (const Word &word : command.words)
      out << " \\\n        " << zsh_spec(word);
    out << " ;;\n";
  }
  // Found on $fpath it is the function's first call; with `source` it only declares.
  out << "    esac ;;\n  esac\n}\nif [[ ${funcstack[1]} == _heddle ]]; then\n  _heddle \"$@\"\nelse\n"
      << "  compdef _heddle heddle\nfi\n";
  return out.str();
}

// ---- fish ----

std::string fish_word(const std::string &condition, const Word &word) {
  std::string out = "complete -c heddle -n '" + condition + "'";
  for (const std::string &name : word.names)
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (word.kind == Kind::words)
    out += " -x -a '" + (word.list ? "(__fish_append , " + joined(word.values) + ")" : joined(word.values)) + "'";
  else if (word.kind == Kind::folder)
    out += " -x -a '(__fish_complete_directories)'";
  else if (word.kind == Kind::path)
    out += word.names.empty() ? " -F" : " -r -F";
  else if (word.kind == Kind::other)
    out += " -x";
  return out + " -d '" + escaped(word.help, "'\\", "\\") + "'\n";
}

std::string fish(const std::vector<Word> &top, const std::vector<Command> &commands) {
  std::string out = "# fish completion for heddle; made by `heddle completion fish`\ncomplete -c heddle -f\n";
  for (const Word &word : top)
    out += fish_word("__fish_use_subcommand", word);
  for (const Command &command : commands)
    out += "complete -c heddle -n __fish_use_subcommand -a " + command.name + " -d '" +
           escaped(command.help, "'\\", "\\") + "'\n";
  for (const Command &command : commands)
    for (const Word &word : command.words)
      out += fish_word("__fish_seen_subcommand_from " + command.name, word);
  return out;
}

} // namespace

std::string shell_completion(const CLI::App &app, const std::string &shell, const KnownValues &values) {
  std::vector<Word> top = words_of(app, values);
  std::vector<Command> commands = commands_of(app, values);
  return shell == "bash" ? bash(top, commands) : shell == "zsh" ? zsh(top, commands) : fish(top, commands);
}

} // namespace heddle
