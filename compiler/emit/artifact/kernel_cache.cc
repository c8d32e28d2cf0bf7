// A file is a hash of its key and the object, and the object, under the name that llvm::pruneCache looks for; one that
// is cut short, changed or renamed is none. Files appear whole, by being renamed, and are not synced: what a crash of
// the machine leaves is found out by the hash.
#include "compiler/emit/artifact/kernel_cache.h"

#include "compiler/version.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <link.h>

namespace heddle {

namespace fs = llvm::sys::fs;

static std::string hash_of(llvm::StringRef bytes) {
  auto hash = llvm::BLAKE3::hash<16>(llvm::arrayRefFromStringRef(bytes));
  return llvm::toHex(hash, true);
}

static std::string checksum(const std::string &key, llvm::StringRef object) { return hash_of(key + hash_of(object)); }

/// The program by its content, since a build that was installed may have any time, and each library by place, size and
/// time, since they have hundreds of megabytes.
static std::string make_identity() {
  std::string out = version;
  if (auto program = llvm::MemoryBuffer::getFile("/proc/self/exe", false, false))
    out += hash_of((*program)->getBuffer());
  auto add = [](dl_phdr_info *info, size_t, void *to) {
    fs::file_status status;
    if (info->dlpi_name && *info->dlpi_name == '/' && !fs::status(info->dlpi_name, status))
      llvm::raw_string_ostream(*static_cast<std::string *>(to))
          << '\n'
          << info->dlpi_name << ' ' << status.getSize() << ' '
          << status.getLastModificationTime().time_since_epoch().count();
    return 0;
  };
  dl_iterate_phdr(add, &out);
  if (const char *arguments = std::getenv("HL_LLVM_ARGS")) // Halide gives them to LLVM
    out += std::string("\n") + arguments;
  return out;
}

std::string KernelCache::path(const std::string &key) const { return folder_ + "/llvmcache-" + key; }

std::string KernelCache::key(llvm::ArrayRef<KernelRow> rows, const Target &target) const {
  if (folder_.empty())
    return "";
  static const std::string identity = make_identity();
  std::string text = identity + "\n" + target.name + "\n";
  llvm::raw_string_ostream stream(text);
  for (KernelRow row : rows) {
    std::string kernel, name = "@" + row.kernel.getName().str() + "(";
    llvm::raw_string_ostream printed(kernel);
    row.kernel->print(printed, mlir::OpPrintingFlags().assumeVerified().useLocalScope());
    if (size_t at = kernel.find(name); at != kernel.npos)
      kernel.replace(at, name.size(), "@(");
    stream << row.row << ' ' << kernel << '\n';
  }
  return hash_of(text);
}

std::optional<std::string> KernelCache::find(const std::string &key) const {
  if (folder_.empty() || !fs::is_regular_file(path(key))) // a FIFO would be waited for, a device read for ever
    return std::nullopt;
  auto file = fs::openNativeFileForRead(path(key), fs::OF_UpdateAtime); // by which prune() knows what is used
  if (!file) {
    llvm::consumeError(file.takeError());
    return std::nullopt;
  }
  auto bytes = llvm::MemoryBuffer::getOpenFile(*file, path(key), -1, false);
  fs::closeFile(*file);
  if (!bytes)
    return std::nullopt;
  llvm::StringRef content = (*bytes)->getBuffer(), object = content.drop_front(std::min<size_t>(32, content.size()));
  if (object.empty() || content.take_front(32) != checksum(key, object))
    return std::nullopt;
  return object.str();
}

void KernelCache::keep(const std::string &key, const std::string &object) const {
  if (folder_.empty() || fs::create_directories(folder_))
    return;
  auto file = fs::TempFile::create(folder_ + "/%%%%%%%%.tmp");
  if (!file)
    return llvm::consumeError(file.takeError());
  llvm::raw_fd_ostream out(file->FD, false);
  out << checksum(key, object) << object;
  out.flush();
  bool whole = !out.has_error();
  out.clear_error(); // else the stream ends the process
  llvm::consumeError(whole ? file->keep(path(key)) : file->discard());
}

void KernelCache::prune() const {
  std::string stamp = folder_ + "/llvmcache.timestamp";
  if (folder_.empty() || (fs::exists(stamp) && !fs::is_regular_file(stamp)))
    return;
  llvm::CachePruningPolicy policy;
  policy.Interval = std::chrono::hours(1);
  policy.Expiration = std::chrono::hours(24 * 30);
  policy.MaxSizeBytes = uint64_t(1) << 30;
  llvm::pruneCache(folder_, policy);
}

} // namespace heddle
