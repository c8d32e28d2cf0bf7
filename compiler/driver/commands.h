// One struct of options and one function per word of the `heddle` command; driver.cc fills the options from the
// command line. A command's failure is one message; how it is shown is driver.cc's matter.
#pragma once

#include "compiler/driver/compile_model.h"
#include "compiler/driver/library.h"
#include "compiler/driver/model.h"

namespace heddle {

/// MODEL, or an artifact: then its weights are compared with their checksum. `watch`: again after every change of the
/// model's files, until an interrupt.
Status check_command(const ModelOptions &model, bool watch);

struct FormatOptions {
  std::vector<std::string> files;
  bool check = false; // only say which files would change
};
Status format_command(const FormatOptions &options);

Status explain_command(const std::string &code);

/// Ends the process with the server's status.
Status lsp_command();

struct CompileCommand {
  ModelOptions model;
  CompileOptions compile;
  std::string output;      // empty: the library's name
  std::string name;        // of the library; empty: made of the model file's name
  bool print_name = false; // and compile nothing
  std::string emit = "so"; // "so", "a" and "o", with commas between
  bool embed_weights = false;
  std::string depfile; // empty: none
  bool timings = false;
};
Status compile_command(const CompileCommand &options);

struct RunCommand {
  ModelOptions model;
  CompileOptions compile;
  std::vector<std::string> entries; // none: the model's default; one; or one per call
  std::vector<std::string> in, out;
  int threads = 0;
  std::string profile; // path of a Chrome trace
  bool reference = false;
};
Status run_command(const RunCommand &options);

struct GenerateCommand {
  std::string path; // of a compiled library's folder
  std::vector<std::string> in;
  std::string out;
  Library::Generation how;
  std::vector<std::string> tokens; // NAME=ID
  int threads = 0;
  bool score = false;
};
Status generate_command(const GenerateCommand &options);

struct ShowCommand {
  ModelOptions model;
  CompileOptions compile;
  std::string stage = "schedule";
  std::string html;              // path of a page; empty: text
  std::vector<std::string> dims; // NAME=N: sizes for the page's numbers
  bool measure = false;          // times on the page
  int threads = 0;               // of measured calls
};
Status show_command(const ShowCommand &options);

struct CompareCommand {
  ModelOptions model;
  CompileOptions compile;
  std::vector<std::string> entries; // none: the only one; one; or one per call
  std::vector<std::string> in, against;
  std::string library;             // a compiled library's folder
  std::optional<double> tolerance; // as a share of the largest value; absent: what the model's types allow
  int threads = 0;
  bool all = false;
  bool parts = false; // a table of what each part loses by the precisions, and of its times
};
Status compare_command(const CompareCommand &options);

struct CalibrateCommand {
  ModelOptions model;
  std::string target = "native";
  std::vector<std::string> entries; // none: the model's default; one; or one per call
  std::vector<std::string> in;
  std::string output;
  double percentile = 100; // of an activation's magnitudes: what 127 stands for
  int threads = 0;
};
Status calibrate_command(const CalibrateCommand &options);

struct AverageCommand {
  std::vector<std::string> files;
  std::string output;
};
Status average_command(const AverageCommand &options);

struct TuneCommand {
  ModelOptions model;        // path empty: only records in or out
  CompileOptions compile;    // its `db`, empty: the default one
  int threads = 0;           // of measured calls
  std::string budget = "5m"; // "90s", "5m", "1h"
  bool resume = false;       // go on with the budget of the search that was interrupted
  int64_t seed = 1;
  std::string report;                 // path of a page
  std::string import_from, export_to; // files of text
  std::string pack;                   // a folder that times a GPU's candidates elsewhere
};
Status tune_command(const TuneCommand &options);
/// Its `--pack`.
Status pack_candidates(const TuneCommand &options);

struct BenchCommand {
  std::string path;
  std::string entry;
  std::string target;             // empty: the best that fits
  std::vector<std::string> first; // entries that run once before: E, or E:NAME=N,…
  std::vector<std::string> dims;  // NAME=N
  int threads = 0;
  int cores = 0; // not 0: of a machine with so many
  std::string json;
};
Status bench_command(const BenchCommand &options);

/// Wrong usage that only a look at the files can find out: a failure of a command with this in front of its message
/// ends with status 2.
inline constexpr const char *usage_mark = "usage: ";

} // namespace heddle
