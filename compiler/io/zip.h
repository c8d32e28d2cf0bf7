// ZIP archives, as NumPy and PyTorch write them: members stored or deflated, also of more than 4 GB.
#pragma once

#include "dsl/errors/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heddle {

struct ZipMember {
  std::string name;
  std::span<const std::byte> packed; // in the archive
  bool deflated = false;
  uint64_t size = 0; // unpacked
  uint32_t crc = 0;
};

/// The members of the archive `bytes`; `path` is for messages. What the directory says lies inside of the archive.
Result<std::vector<ZipMember>> read_zip(const std::string &path, std::span<const std::byte> bytes);

/// A member's bytes, where they lie if they are stored; else unpacked into `room`, which must outlive them, and
/// compared with their checksum.
Result<std::span<const std::byte>> unpack(const std::string &path, const ZipMember &member,
                                          std::vector<std::byte> &room);

} // namespace heddle
