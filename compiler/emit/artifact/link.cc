// lld is a library here; its driver keeps global state, so one link runs at a time. System libraries are found
// where this process has loaded them from: a machine without a C compiler has no other trace of them.
#include "compiler/emit/artifact/link.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>
#include <fstream>
#include <mutex>
#include <set>

LLD_HAS_DRIVER(elf)

namespace heddle {

/// Paths of libc, libm, libpthread, libdl (one file since glibc 2.34) and the loader.
static std::set<std::string> system_libraries() {
  std::set<std::string> out;
  for (const char *symbol : {"malloc", "expf", "pthread_create", "dlopen", "__tls_get_addr"}) {
    void *address = dlsym(RTLD_DEFAULT, symbol);
    Dl_info info;
    // The program itself may stand in for a library's symbol (sanitizers do).
    if (address && dladdr(address, &info) && std::string_view(info.dli_fname).find(".so") != std::string_view::npos)
      out.insert(info.dli_fname);
  }
  return out;
}

Status link_library(const LinkJob &job) {
  std::string script = job.scratch + "/exports";
  std::string text = "{ global:";
  for (const std::string &name : job.exports)
    text += " " + name + ";";
  std::ofstream(script) << text << " local: *; };\n";

  std::set<std::string> system = system_libraries();
  std::vector<std::string> words = {
      "ld.lld", "-shared", "-m", "elf_x86_64", "-o", job.output,      "-soname",          job.soname,
      "-z",     "defs",    "-z", "now",        "-s", "--gc-sections", "--hash-style=gnu", "--version-script=" + script};
  words.insert(words.end(), job.objects.begin(), job.objects.end());
  words.push_back("--as-needed");
  words.insert(words.end(), system.begin(), system.end());
  std::vector<const char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(word.c_str());

  static std::mutex one_at_a_time;
  std::lock_guard lock(one_at_a_time);
  std::string out, err;
  llvm::raw_string_ostream out_stream(out), err_stream(err);
  lld::Result result = lld::lldMain(arguments, out_stream, err_stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode)
    return Error{job.soname +
                 " did not link; this is a bug of Heddle: " + llvm::StringRef(err.empty() ? out : err).trim().str()};
  return Done{};
}

} // namespace heddle
