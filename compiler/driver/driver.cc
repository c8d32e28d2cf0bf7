// CLI11 reads the words and a command does the work; all its failures arrive here as one message.
#include "compiler/driver/driver.h"

#include "compiler/driver/commands.h"
#include "compiler/driver/large_stack.h"
#include "compiler/driver/manual.h"
#include "compiler/driver/signals.h"
#include "compiler/driver/usage.h"
#include "compiler/driver/version_text.h"
#include "compiler/io/input.h"
#include "compiler/io/unfinished.h"
#include "compiler/tune/worker.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <new>
#include <poll.h>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace heddle {

namespace {

constexpr const char *about = R"(Compiles Transformer models to native libraries.

MODEL is a .heddle file, or a folder in the Hugging Face layout (config.json and model.safetensors), for which
--model FILE.heddle names a model file of your own.
DIR is what `heddle compile` wrote: lib<name>.so, <name>.h, <name>.weights, <name>.json.)";

/// A word by its place is shown as what it must be, not as a name and that.
struct Layout : CLI::Formatter {
  std::string make_option_name(const CLI::Option *option, bool by_place) const override {
    return by_place && !option->get_option_text().empty() ? option->get_option_text()
                                                          : CLI::Formatter::make_option_name(option, by_place);
  }
  std::string make_option_opts(const CLI::Option *option) const override {
    return option->get_positional() && !option->get_option_text().empty() ? ""
                                                                          : CLI::Formatter::make_option_opts(option);
  }
};

/// All words of the command, with the options that each fills.
class CommandLine {
public:
  CommandLine() {
    app.require_subcommand(1);
    app.set_version_flag("--version", version_text());
    app.failure_message([](const CLI::App *at, const CLI::Error &error) {
      std::string command = at->get_name();
      for (const CLI::App *chosen : at->get_subcommands())
        command += " " + chosen->get_name();
      return error_word(stderr_paint()) + " " + words_of(*at, error) + "\n`" + command +
             " --help` says what there is\n";
    });
    app.formatter(std::make_shared<Layout>());
    app.get_formatter()->column_width(34);
    add_check();
    add_fmt();
    add_explain();
    add_compile();
    add_run();
    add_generate();
    add_tune();
    add_bench();
    add_show();
    add_compare();
    add_calibrate();
    add_average();
    add_lsp();
    add_completion();
    add_man();
  }

  CLI::App app{about, "heddle"};
  std::function<Status()> chosen;
  LibraryOptions of_libraries;

private:
  CLI::App *command(const char *name, const char *what, std::function<Status()> work) {
    CLI::App *out = app.add_subcommand(name, what);
    out->callback([this, work] { chosen = work; });
    return out;
  }
  static void add_settings(CLI::App *to, ModelOptions &model) {
    to->add_option(
          "--config", model.config,
          "Settings for a .heddle file: a config.json, a folder with one, or a name in presets/ beside the model "
          "file")
        ->type_name("FILE|FOLDER|NAME");
    to->add_option("--set", model.settings, "Set a config by its name or config.json key; may be given again")
        ->type_name("K=V")
        ->allow_extra_args(false);
    to->add_option(
          "--io", model.io,
          "Type of real inputs and results as a caller sees them: f32, bf16 or f16; if not given, as the model "
          "file has them")
        ->type_name("T");
  }
  static void add_model(CLI::App *to, ModelOptions &model, const char *word = "MODEL",
                        const char *what = "A .heddle file or a Hugging Face folder") {
    to->add_option("MODEL", model.path, what)->required()->option_text(word);
    to->add_option("--model", model.own, "A model file of your own, for the config.json and the weights of a folder")
        ->type_name("FILE.heddle");
    add_settings(to, model);
  }
  static void add_weights(CLI::App *to, ModelOptions &model) {
    to->add_option("--weights", model.weights,
                   "Weights: .safetensors, .npz, PyTorch's .pt or .bin, an index of several, or a folder with them")
        ->type_name("FILE");
  }
  static void add_compile_options(CLI::App *to, CompileOptions &compile, const char *more = "") {
    to->add_option("--target", compile.target,
                   std::string("native, x86-64-v3, x86-64-v3+vnni, x86-64-v4, x86-64-v4+vnni, x86-64-v4+bf16, "
                               "x86-64-v4+amx, cuda:sm_80, cuda:sm_90") +
                       more)
        ->type_name("T")
        ->capture_default_str();
    to->add_option("--precision", compile.precision, "What products multiply: f32, bf16 or int8; on GPUs also tf32")
        ->type_name("P")
        ->capture_default_str();
    to->add_option(
          "--keep", compile.keep,
          "Another precision for a part of the model: a weight's or definition's path, as stage tree of `show` "
          "has it, with all beneath it; may be given again")
        ->type_name("PATH=P")
        ->allow_extra_args(false);
    to->add_option("--scales", compile.scales,
                   "int8: scales of activations, from `heddle calibrate`; without it, they are found in each call")
        ->type_name("S.json");
    to->add_flag("--single-copy", compile.single_copy,
                 "Store no weight in two layouts, also where kernels that read it want that");
    to->add_option(
          "--db", compile.db,
          "Tuning database to choose schedules by; `none`: by expected cost alone; if not given, $HEDDLE_DB or "
          "heddle/tuning.db in the folder for caches")
        ->type_name("FILE|none");
  }
  static void add_machine(CLI::App *to, CompileOptions &compile) {
    to->add_option("--machine", compile.machine,
                   "Choose schedules by what was measured on that machine, such as a GPU, instead of on this one")
        ->type_name("NAME");
  }

  void add_check() {
    auto *sub = command("check", "Read and check a model; or compare a library's weights with their checksum",
                        [this] { return check_command(check.model, check.watch); });
    add_model(sub, check.model, "MODEL|DIR", "A .heddle file, a Hugging Face folder, or a compiled library's folder");
    add_weights(sub, check.model);
    sub->add_flag("--watch", check.watch, "Check again whenever a model file or config.json beside it changes");
    of_libraries.take(sub, check.model.path, {});
  }
  void add_fmt() {
    auto *sub = command("fmt", "Lay out model files in the canonical form", [this] { return format_command(format); });
    sub->add_option("FILES", format.files, "Model files, changed in place")->required()->option_text("FILE.heddle");
    sub->add_flag("--check", format.check, "Change nothing; fail if a file would change");
  }
  void add_explain() {
    auto *sub = command("explain", "Explain a message at length", [this] { return explain_command(code); });
    sub->add_option("CODE", code, "The message's code, such as E021")->required()->option_text("CODE");
  }
  void add_compile() {
    auto *sub = command("compile", "Compile a model to a library", [this] { return compile_command(compile); });
    add_model(sub, compile.model);
    add_weights(sub, compile.model);
    sub->add_flag("--blank", compile.model.blank,
                  "Read no weights: all are zeros, for a model that is trained from scratch")
        ->excludes("--weights");
    add_compile_options(sub, compile.compile,
                        "; several, with commas between: the best that fits is taken when the library is loaded");
    add_machine(sub, compile.compile);
    sub->add_option(
           "--dim", compile.compile.dims,
           "A size to expect, such as S=128: schedules are chosen for it; any other works, too; may be given again")
        ->type_name("NAME=N")
        ->allow_extra_args(false);
    sub->add_option("--cache", compile.compile.cache,
                    "Folder with kernels that were compiled before; `none`: compile all of them; if not given, "
                    "$HEDDLE_CACHE or heddle/kernels in the folder for caches")
        ->type_name("DIR|none");
    sub->add_flag("--why", compile.compile.why,
                  "Print the schedules considered for each kernel, and what each should take");
    sub->add_option("--token", compile.model.tokens,
                    "A token id, such as eos_token_id=2, instead of the folder's; may be given again")
        ->type_name("NAME=ID")
        ->allow_extra_args(false);
    sub->add_option("-o,--output", compile.output, "Folder to write; the library's name if not given")
        ->type_name("DIR");
    sub->add_option("--name", compile.name, "Name of the library, its files and functions, instead of the model file's")
        ->type_name("NAME");
    sub->add_flag("--print-name", compile.print_name,
                  "Print the name that the library would have, and compile nothing");
    sub->add_option(
           "--emit", compile.emit,
           "What to write, with commas between: so (shared library), a (static library), o (object), beside these ptx "
           "(text of a GPU's kernels)")
        ->type_name("so,a,o,ptx")
        ->capture_default_str();
    sub->add_flag("--embed-weights", compile.embed_weights, "Put the weights into the library, for small models");
    sub->add_option("--depfile", compile.depfile, "Write a Makefile rule: which files the library was made from")
        ->type_name("FILE");
    sub->add_flag("--timings", compile.timings, "Say how long each stage took");
  }
  void add_run() {
    auto *sub = command("run", "Run a library, or compile a model and run it", [this] { return run_command(run); });
    add_model(sub, run.model, "DIR|MODEL", "A compiled library's folder, a .heddle file or a Hugging Face folder");
    add_weights(sub, run.model);
    add_compile_options(sub, run.compile, "; of DIR one that it was compiled for, native: the best that fits");
    add_machine(sub, run.compile);
    sub->add_option(
           "--entry", run.entries,
           "Which entry; not needed where there is one, or one called `forward`. Given several times: one per call")
        ->type_name("E")
        ->allow_extra_args(false);
    sub->add_option(
           "--in", run.in,
           "Inputs: FILE.safetensors or .npz, or NAME=FILE.npy for each; given several times, several calls on one "
           "session")
        ->required()
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_option("--out", run.out, "Results as .safetensors, once per call; without it a summary is printed")
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_option("--threads", run.threads, "At most so many threads; 0: all that the machine allows")
        ->type_name("N")
        ->check(numbers_from(0));
    sub->add_option("--profile", run.profile, "Write a trace for chrome://tracing or Perfetto")
        ->type_name("TRACE.json");
    sub->add_flag("--reference", run.reference, "Evaluate slowly and exactly instead of compiling");
    of_libraries.take(sub, run.model.path, {"--target", "--entry", "--in", "--out", "--threads", "--profile"});
  }
  void add_generate() {
    auto *sub = command("generate", "Write texts with a library: greedily, by beam search, or by sampling",
                        [this] { return generate_command(generate); });
    Library::Generation &how = generate.how;
    sub->add_option("DIR", generate.path, "A compiled library's folder")->required()->option_text("DIR");
    sub->add_option("--in", generate.in, "Source or prompt: FILE.safetensors, or NAME=FILE.npy for each input")
        ->required()
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_option("--out", generate.out, "`sequences` and `scores` as .safetensors; without it they are printed")
        ->type_name("FILE");
    sub->add_option("--steps", how.steps, "At most so many new tokens")->type_name("N");
    sub->add_option("--min-steps", how.min_steps, "No end token before so many")->type_name("M");
    sub->add_option("--beam", how.beams, "Beams of the search; 1: greedy")->type_name("K")->capture_default_str();
    sub->add_option("--length-penalty", how.length_penalty, "A text's score is sum / length ** F")
        ->type_name("F")
        ->capture_default_str();
    sub->add_option("--early-stopping", how.early_stopping, "When a beam search ends: false, true or never")
        ->check(CLI::IsMember({"false", "true", "never"}))
        ->capture_default_str();
    sub->add_flag("--sample", how.sample, "Choose at random instead of the best");
    sub->add_option("--temperature", how.temperature, "Sampling: divides the logits")->capture_default_str();
    sub->add_option("--top-k", how.top_k, "Sampling: only the best so many; 0: all")->capture_default_str();
    sub->add_option("--top-p", how.top_p, "Sampling: only the best with so much of the probability")
        ->capture_default_str();
    sub->add_option("--seed", how.seed, "Sampling: the same seed gives the same texts")->capture_default_str();
    sub->add_option("--token", generate.tokens, "A token id, such as eos_token_id=2, instead of the model's")
        ->type_name("NAME=ID")
        ->allow_extra_args(false);
    sub->add_flag("--score", generate.score, "Give the log-probability of each token of the texts in --in");
    sub->add_option("--threads", generate.threads, "At most so many threads; 0: all that the machine allows")
        ->type_name("N")
        ->check(numbers_from(0));
  }
  void add_tune() {
    auto *sub =
        command("tune", "Search for the fastest schedules of a model by measurement; `heddle compile` goes by them",
                [this] { return tune_command(tune); });
    sub->add_option("MODEL", tune.model.path, "A .heddle file or a Hugging Face folder; none: only records in or out")
        ->option_text("MODEL");
    sub->add_option("--model", tune.model.own, "A model file of your own, for the config.json and weights of a folder")
        ->type_name("FILE.heddle");
    add_settings(sub, tune.model);
    add_weights(sub, tune.model);
    add_compile_options(sub, tune.compile);
    sub->add_option("--dim", tune.compile.dims, "A dim's value, such as B=8; every dim must have one")
        ->type_name("NAME=N")
        ->allow_extra_args(false);
    sub->add_option("--threads", tune.threads, "Of measured calls; 0: all that the machine allows")
        ->type_name("N")
        ->check(numbers_from(0));
    sub->add_option("--budget", tune.budget, "How long it may take in all: 90s, 5m, 1h")
        ->type_name("TIME")
        ->capture_default_str();
    sub->add_flag("--resume", tune.resume, "Go on with what is left of an interrupted search's budget");
    sub->add_option("--seed", tune.seed, "Decides what is measured out of turn")->capture_default_str();
    sub->add_option("--report", tune.report, "Write what was found as one page of HTML")->type_name("FILE.html");
    sub->add_option("--import", tune.import_from, "Put the records of a file of text into the database")
        ->type_name("FILE");
    sub->add_option("--export", tune.export_to, "Write the database's records as text, sorted; -: to standard output")
        ->type_name("FILE");
    CLI::Option *pack =
        sub->add_option(
               "--pack", tune.pack,
               "Write a folder that times the candidates of a GPU's kernels on another machine: there DIR/run, "
               "which needs the driver and Python, then --import DIR/timings")
            ->type_name("DIR");
    for (const char *of_searches :
         {"--db", "--threads", "--budget", "--resume", "--seed", "--report", "--import", "--export"})
      pack->excludes(of_searches);
  }
  void add_bench() {
    auto *sub =
        command("bench", "Time a library beside the machine's own limits", [this] { return bench_command(bench); });
    sub->add_option("DIR", bench.path, "A compiled library's folder")->required()->option_text("DIR");
    sub->add_option("--entry", bench.entry, "Which entry; not needed where there is one")->type_name("E");
    sub->add_option("--first", bench.first,
                    "An entry that must run before; once, in the given order, with dims of its own where some follow: "
                    "step:T=960")
        ->type_name("E[:NAME=N,…]")
        ->allow_extra_args(false);
    sub->add_option("--dim", bench.dims, "A dim's value, such as B=8; may be given again")
        ->type_name("NAME=N")
        ->allow_extra_args(false);
    sub->add_option("--threads", bench.threads, "At most so many threads; 0: all that the machine allows")
        ->type_name("N")
        ->check(numbers_from(0));
    sub->add_option(
           "--cores", bench.cores,
           "Say how long a machine with so many cores like this one would take, from what each task takes on one")
        ->type_name("N")
        ->check(CLI::Range(1, 1024))
        ->excludes("--threads");
    sub->add_option("--target", bench.target, "One that the library was compiled for; else the best that fits")
        ->type_name("T");
    sub->add_option("--json", bench.json, "Write the numbers to a file")->type_name("FILE");
  }
  void add_show() {
    auto *sub = command("show", "Print a model at a stage of its compilation, or a library's manifest",
                        [this] { return show_command(show); });
    add_model(sub, show.model, "MODEL|DIR", "A .heddle file, a Hugging Face folder, or a compiled library's folder");
    add_weights(sub, show.model);
    add_compile_options(sub, show.compile);
    add_machine(sub, show.compile);
    sub->add_flag("--why", show.compile.why,
                  "Print the schedules considered for each kernel, and what each should take");
    sub->add_option("--stage", show.stage, "Which stage")
        ->check(CLI::IsMember({"tree", "graph", "kernels", "schedule", "halide", "launches", "ptx", "llvm", "asm"}))
        ->capture_default_str();
    sub->add_option("--html", show.html, "Write the whole road, from the model's lines to kernels, as one page")
        ->type_name("FILE");
    sub->add_option(
           "--dim", show.dims,
           "A dim's value, such as B=8: a size to expect, as of `compile`, and for the numbers that are shown; may be "
           "given again")
        ->type_name("NAME=N")
        ->allow_extra_args(false);
    sub->add_flag("--measure", show.measure,
                  "Compile and run the model, and put the time of each kernel and line on the page");
    sub->add_option("--threads", show.threads, "Of measured runs; 0: all that the machine allows")
        ->type_name("N")
        ->check(numbers_from(0))
        ->needs("--measure");
    of_libraries.take(sub, show.model.path, {"--stage"});
  }

  void add_compare() {
    auto *sub =
        command("compare", "Name the first definition that a compiled model computes otherwise than the evaluator",
                [this] { return compare_command(compare); });
    add_model(sub, compare.model);
    add_weights(sub, compare.model);
    add_compile_options(sub, compare.compile);
    add_machine(sub, compare.compile);
    sub->add_option("--entry", compare.entries,
                    "Which entry; not needed where there is one. Given several times: one per call")
        ->type_name("E")
        ->allow_extra_args(false);
    sub->add_option("--in", compare.in, "Inputs, as of `heddle run`; several files are several calls on one session")
        ->required()
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_option("--against", compare.against,
                    "Tensors named as definitions (.safetensors, one per call) to compare with, instead of evaluating")
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_flag_callback(
        "--reference", [] {}, "Compare with the evaluator, slow and exact; so it is without --against");
    sub->add_option("--library", compare.library, "Compare the results of this compiled library, too")
        ->type_name("DIR");
    sub->add_option(
           "--tolerance", compare.tolerance,
           "Largest difference, as a share of the definition's largest value; if not given, 2e-4, in a model that "
           "computes in f16 or tf32 0.01, in bf16 0.04, with --precision int8 0.1")
        ->type_name("X")
        ->check(numbers_from(0));
    sub->add_option("--threads", compare.threads, "At most so many threads; 0: all that the machine allows")
        ->type_name("N")
        ->check(numbers_from(0));
    sub->add_flag("--all", compare.all, "Print a line for every definition that is compared");
    sub->add_flag("--parts", compare.parts,
                  "Instead, a table of what each part loses by --precision and --keep against f32, and of its times in "
                  "both: which parts to --keep");
  }
  void add_calibrate() {
    auto *sub = command("calibrate", "Find scales of activations on real inputs, for `--precision int8 --scales`",
                        [this] { return calibrate_command(calibrate); });
    add_model(sub, calibrate.model);
    add_weights(sub, calibrate.model);
    sub->add_option("--target", calibrate.target, "What to compile for, to compute the activations")
        ->type_name("T")
        ->capture_default_str();
    sub->add_option(
           "--entry", calibrate.entries,
           "Which entry; not needed where there is one, or one called `forward`. Given several times: one per call")
        ->type_name("E")
        ->allow_extra_args(false);
    sub->add_option("--in", calibrate.in, "Inputs, as of `heddle run`; several files are several calls on one session")
        ->required()
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_option("-o,--output", calibrate.output, "File to write")->required()->type_name("S.json");
    sub->add_option("--percentile", calibrate.percentile,
                    "The share of an activation's magnitudes, in percent, that its scale reaches; 100: all")
        ->type_name("P")
        ->check(numbers_from(50, 100))
        ->capture_default_str();
    sub->add_option("--threads", calibrate.threads, "At most so many threads; 0: all that the machine allows")
        ->type_name("N")
        ->check(numbers_from(0));
  }
  void add_average() {
    auto *sub = command("average", "Make the mean of several files of weights, such as a run's last checkpoints",
                        [this] { return average_command(average); });
    sub->add_option("FILE", average.files, "Files with the same tensors")->required();
    sub->add_option("-o,--output", average.output, "File to write")->required()->type_name("FILE.safetensors");
  }
  void add_lsp() {
    auto *sub = command("lsp", "Serve an editor: the Language Server Protocol on standard input and output",
                        [] { return lsp_command(); });
    sub->add_flag_callback("--stdio", [] {}, "As editors say it; there is no other way");
  }

  void add_completion() {
    auto *sub = command("completion", "Print a script that completes this command's words in a shell", [this] {
      std::fputs(shell_completion(app, shell, known_values()).c_str(), stdout);
      return Status(Done{});
    });
    sub->add_option("SHELL", shell, "Which shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  }
  void add_man() {
    command("man", "Print the manual page, as `man` reads it", [this] {
      std::fputs(manual_page(app, version_text()).c_str(), stdout);
      return Status(Done{});
    });
  }
  static KnownValues known_values() {
    KnownValues out{{"--target", {"native"}},
                    {"--precision", {std::begin(precisions), std::end(precisions)}},
                    {"--io", {"f32", "bf16", "f16"}},
                    {"--emit", {"so", "a", "o", "ptx"}}};
    for (std::span<const Target> some : {targets(), gpu_targets()})
      for (const Target &target : some)
        out["--target"].push_back(target.name);
    return out;
  }

  struct {
    ModelOptions model;
    bool watch = false;
  } check;
  FormatOptions format;
  std::string code, shell;
  CompileCommand compile;
  RunCommand run;
  GenerateCommand generate;
  BenchCommand bench;
  CalibrateCommand calibrate;
  AverageCommand average;
  TuneCommand tune;
  ShowCommand show;
  CompareCommand compare;
};

} // namespace

/// Standard streams that the caller has closed would be the first files that are opened: what is printed would be
/// written into them.
static void hold_standard_streams() {
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor)
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null", O_RDONLY);
}

/// Whether all that was printed has arrived: the exit status. A reader that wanted no more (`| head`) needs no message.
static int flush_output() {
  bool failed = std::ferror(stdout);
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed)
    return 0;
  std::string why = errno ? std::string(": ") + std::strerror(errno) : "";
  pollfd reader{STDOUT_FILENO, POLLOUT, 0};
  if (poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR))
    return 128 + SIGPIPE;
  print_error({"standard output cannot be written" + why});
  return 1;
}

/// What no one foresaw ends in one message, too.
static Status run(const std::function<Status()> &command) {
  FilesStay files;
  try {
    return command();
  } catch (const std::bad_alloc &) {
    return Error{"there is not enough memory for this"};
  } catch (const std::length_error &) {
    return Error{"there is not enough memory for this"};
  } catch (const std::system_error &error) {
    if (error.code() == std::errc::resource_unavailable_try_again || error.code() == std::errc::not_enough_memory)
      return Error{"there is not enough memory for this, or too many threads run"};
    return Error{std::string(error.what()) + "; this is a bug of Heddle, please report it with what you ran"};
  } catch (const std::exception &error) {
    return Error{std::string(error.what()) + "; this is a bug of Heddle, please report it with what you ran"};
  }
}

static int usage_error(const std::string &message) {
  print_error({message});
  return 2;
}

static int run_command_line(int argc, char **argv) {
  CommandLine line;
  if (argc == 1) {
    std::fputs(line.app.help().c_str(), stderr);
    return 2;
  }
  if (std::string wrong = wrong_first_word(line.app, argv[1]); !wrong.empty())
    return usage_error(wrong + "\n`heddle --help` lists the commands");
  try {
    line.app.parse(words_from_the_last(argc, argv));
  } catch (const CLI::ParseError &error) {
    return line.app.exit(error) == 0 ? flush_output() : 2;
  }
  if (std::string option = empty_option(line.app); !option.empty())
    return usage_error(option + " is empty: give it a value or leave it out");
  if (std::string wrong = line.of_libraries.wrong(); !wrong.empty())
    return usage_error(wrong);
  hold_standard_streams();
  take_signals();
  Status done = run(line.chosen);
  auto lock = no_end_meanwhile(); // an interrupt that has come first has the last word
  end_in_order();
  if (done)
    return flush_output();
  Error error = done.error();
  if (error.message.starts_with(usage_mark))
    return usage_error(error.message.substr(std::string(usage_mark).size()));
  print_error(error);
  return 1;
}

int run_driver(int argc, char **argv) {
  if (argc == 2 && argv[1] == tune::worker_word)
    return tune::run_worker();
  return on_large_stack([&] { return run_command_line(argc, argv); });
}

} // namespace heddle
