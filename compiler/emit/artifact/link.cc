// lld is a library here; its driver keeps global state, so one link runs at a time. System libraries are found
// where this process has loaded them from: a machine without a C compiler has no other trace of them.
#include "compiler/emit/artifact/link.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Object/BuildID.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>

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

namespace {

/// What is written to a pipe, taken by a thread of its own. lld writes a regular file through a mapping, where a full
/// disk is SIGBUS, or with a stream whose errors end the process; to a pipe it writes plain bytes.
class PipeToMemory {
public:
  PipeToMemory() {
    if (pipe2(ends_, O_CLOEXEC) == 0)
      reader_ = std::thread([this] { read_all(); });
  }
  ~PipeToMemory() { finish(); }
  /// What to open for writing; empty where there is no pipe, and errno says why.
  std::string path() const { return ends_[1] < 0 ? "" : "/proc/self/fd/" + std::to_string(ends_[1]); }
  std::string finish() {
    if (reader_.joinable()) {
      close(ends_[1]);
      reader_.join();
      close(ends_[0]);
    }
    return std::move(bytes_);
  }

private:
  void read_all() {
    char block[1 << 16];
    for (ssize_t count; (count = read(ends_[0], block, sizeof block)) != 0;)
      if (count > 0)
        bytes_.append(block, static_cast<size_t>(count));
      else if (errno != EINTR)
        return;
  }
  int ends_[2] = {-1, -1};
  std::string bytes_;
  std::thread reader_;
};

} // namespace

Result<std::string> link_library(const LinkJob &job) {
  PipeToMemory library;
  if (library.path().empty())
    return Error{job.soname + ": cannot be linked: " + std::strerror(errno)};
  std::set<std::string> system = system_libraries();
  std::vector<std::string> words = {
      "ld.lld",
      "-shared",
      "-m",
      "elf_x86_64",
      "-o",
      library.path(),
      "-soname",
      job.soname,
      "-z",
      "defs",
      "-z",
      "now",
      "-s",
      "--gc-sections",
      "--hash-style=gnu",
      "--build-id=0x" + llvm::utohexstr(llvm::byteswap(job.build), /*LowerCase=*/true, /*Width=*/16), // bytes
      "--version-script=" + job.version_script};
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
  std::string bytes = library.finish();
  if (result.retCode)
    return Error{job.soname +
                 " did not link; this is a bug of Heddle: " + llvm::StringRef(err.empty() ? out : err).trim().str()};
  return bytes;
}

} // namespace heddle
