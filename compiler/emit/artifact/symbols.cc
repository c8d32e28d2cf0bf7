#include "compiler/emit/artifact/symbols.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ObjCopy/CommonConfig.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/StringSaver.h"
#include "llvm/Support/raw_ostream.h"

namespace heddle {

static Error failure(llvm::Error error) {
  return Error{"names in an object cannot be changed: " + llvm::toString(std::move(error))};
}

Result<std::string> rename_symbols(const std::string &object,
                                   const std::vector<std::pair<std::string, std::string>> &from_to) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernels"));
  if (!file)
    return failure(file.takeError());
  llvm::BumpPtrAllocator memory;
  llvm::StringSaver names(memory);
  llvm::objcopy::ConfigManager config;
  config.Common.OutputFilename = "kernels";
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto name = symbol.getName();
    if (!name)
      return failure(name.takeError());
    for (const auto &[from, to] : from_to)
      if (llvm::StringRef rest = *name; rest.consume_front(from) && (rest.empty() || !llvm::isDigit(rest[0])))
        config.Common.SymbolsToRename[*name] = names.save(to + rest);
  }
  llvm::SmallVector<char> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error failed = llvm::objcopy::executeObjcopyOnBinary(config, **file, stream))
    return failure(std::move(failed));
  return std::string(bytes.data(), bytes.size());
}

} // namespace heddle
