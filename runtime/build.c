// The number of this library's code: the build id that the compiler had the linker write. A library reads its own from
// its headers, which lie in memory with it.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <link.h>
#include <string.h>

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden"))); // the linker's name for the first byte

uint64_t rt_build(void) {
  const char *image = (const char *)&__ehdr_start;
  const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(image + __ehdr_start.e_phoff);
  const char *base = image; // where address 0 of the file would lie
  for (int i = 0; i < __ehdr_start.e_phnum; i++)
    if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0)
      base = image - segments[i].p_vaddr;
  for (int i = 0; i < __ehdr_start.e_phnum; i++) {
    if (segments[i].p_type != PT_NOTE)
      continue;
    const char *at = base + segments[i].p_vaddr, *end = at + segments[i].p_memsz;
    while (end - at > (ptrdiff_t)sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
      const char *name = at + sizeof *note, *content = name + (note->n_namesz + 3u) / 4 * 4;
      uint64_t build; // of as many bytes as `heddle compile` asks for
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz == sizeof build) {
        memcpy(&build, content, sizeof build);
        return build;
      }
      at = content + (note->n_descsz + 3u) / 4 * 4;
    }
  }
  return 0; // linked in another way
}
