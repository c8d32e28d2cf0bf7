// lld is a library here; its driver keeps global state, so one link runs at a time. System libraries are found
// where this process has loaded them from: a machine without a C compiler has no other trace of them.
#include "compiler/emit/artifact/link.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Object/Binary.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <system_error>
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
    if (pipe2(ends_, O_CLOEXEC) != 0)
      return;
    try {
      reader_ = std::thread([this] { read_all(); });
    } catch (const std::system_error &error) { // no memory for its stack, or too many threads run
      close(ends_[0]);
      close(ends_[1]);
      ends_[0] = ends_[1] = -1;
      errno = error.code().value();
    }
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

/// What lld writes with these words, for `name` in messages.
static Result<std::string> link(const std::string &name, std::vector<std::string> words) {
  PipeToMemory output;
  if (output.path().empty())
    return Error{name + ": cannot be linked: " + std::strerror(errno)};
  // One thread: lld's others are made by a thread of LLVM's, in which a failure ends the process.
  words.insert(words.begin(), {"ld.lld", "-m", "elf_x86_64", "--threads=1", "-o", output.path()});
  std::vector<const char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(word.c_str());

  static std::mutex one_at_a_time;
  std::lock_guard lock(one_at_a_time);
  std::string out, err;
  llvm::raw_string_ostream out_stream(out), err_stream(err);
  lld::Result result = lld::lldMain(arguments, out_stream, err_stream, {{lld::Gnu, &lld::elf::link}});
  std::string bytes = output.finish();
  if (!result.retCode)
    return bytes;
  std::string said = llvm::StringRef(err.empty() ? out : err).trim().str();
  for (int error : {EMFILE, ENFILE, ENOMEM})
    if (said.find(std::strerror(error)) != said.npos)
      return Error{name + ": cannot be linked: " + std::strerror(error)};
  return Error{name + " did not link; this is a bug of Heddle: " + said};
}

Result<std::string> link_library(const LinkJob &job) {
  std::set<std::string> system = system_libraries();
  std::vector<std::string> words = {
      "-shared",
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
  for (const std::string &symbol : job.needed)
    words.push_back("--undefined=" + symbol);
  words.insert(words.end(), job.objects.begin(), job.objects.end());
  words.push_back("--as-needed");
  words.insert(words.end(), system.begin(), system.end());
  return link(job.soname, words);
}

static Error not_made(const char *what, llvm::Error error) {
  return Error{std::string(what) + "; this is a bug of Heddle: " + llvm::toString(std::move(error))};
}

Result<std::string> link_object(const std::vector<std::string> &objects, const std::vector<std::string> &shown) {
  std::vector<std::string> words = {"-r", "--gc-sections"};
  for (const std::string &symbol : shown)
    words.push_back("--undefined=" + symbol);
  words.insert(words.end(), objects.begin(), objects.end());
  auto linked = link("the object", words);
  if (!linked)
    return linked.error();

  using namespace llvm::objcopy;
  ConfigManager config;
  auto fails = [](llvm::Error error) { return error; };
  for (const std::string &symbol : shown)
    if (auto error =
            config.Common.SymbolsToKeepGlobal.addMatcher(NameOrPattern::create(symbol, MatchStyle::Literal, fails)))
      return not_made("the object's symbols cannot be told", std::move(error));
  // Hints to the linker by symbol's number, which change.
  if (auto error =
          config.Common.ToRemove.addMatcher(NameOrPattern::create(".llvm_addrsig", MatchStyle::Literal, fails)))
    return not_made("the object's sections cannot be told", std::move(error));
  auto object = llvm::object::createBinary(llvm::MemoryBufferRef(*linked, "object"));
  if (!object)
    return not_made("the object cannot be read", object.takeError());
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (auto error = executeObjcopyOnBinary(config, **object, stream))
    return not_made("the object's symbols cannot be hidden", std::move(error));
  return std::string(bytes.data(), bytes.size());
}

Result<std::string> archive_of(const std::string &member, const std::string &bytes) {
  llvm::NewArchiveMember one;
  one.Buf = llvm::MemoryBuffer::getMemBuffer(bytes, member, /*RequiresNullTerminator=*/false);
  one.MemberName = one.Buf->getBufferIdentifier();
  auto archive = llvm::writeArchiveToBuffer(one, llvm::SymtabWritingMode::NormalSymtab, llvm::object::Archive::K_GNU,
                                            /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return not_made("the archive cannot be written", archive.takeError());
  return (*archive)->getBuffer().str();
}

} // namespace heddle
