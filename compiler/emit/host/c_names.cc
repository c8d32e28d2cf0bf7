// Functions are looked up in the C library itself. Words, macros (as `clang -dM -E` of all headers lists) and types are
// in tables: those of the C and POSIX headers that a name with an underscore in it can be.
#include "compiler/emit/host/c_names.h"

#include <algorithm>
#include <cctype>
#include <dlfcn.h>
#include <iterator>
#include <string_view>

namespace heddle {

namespace {

constexpr std::string_view words_and_types[] = {"and_eq",
                                                "assert_perror",
                                                "atomic_compare_exchange_strong",
                                                "atomic_compare_exchange_strong_explicit",
                                                "atomic_compare_exchange_weak",
                                                "atomic_compare_exchange_weak_explicit",
                                                "atomic_exchange",
                                                "atomic_exchange_explicit",
                                                "atomic_fetch_add",
                                                "atomic_fetch_add_explicit",
                                                "atomic_fetch_and",
                                                "atomic_fetch_and_explicit",
                                                "atomic_fetch_or",
                                                "atomic_fetch_or_explicit",
                                                "atomic_fetch_sub",
                                                "atomic_fetch_sub_explicit",
                                                "atomic_fetch_xor",
                                                "atomic_fetch_xor_explicit",
                                                "atomic_flag_clear",
                                                "atomic_flag_clear_explicit",
                                                "atomic_flag_test_and_set",
                                                "atomic_flag_test_and_set_explicit",
                                                "atomic_init",
                                                "atomic_is_lock_free",
                                                "atomic_load",
                                                "atomic_load_explicit",
                                                "atomic_signal_fence",
                                                "atomic_store",
                                                "atomic_store_explicit",
                                                "atomic_thread_fence",
                                                "co_await",
                                                "co_return",
                                                "co_yield",
                                                "const_cast",
                                                "d_fileno",
                                                "dynamic_cast",
                                                "fd_mask",
                                                "fd_set",
                                                "h_addr",
                                                "h_errno",
                                                "isalnum_l",
                                                "isalpha_l",
                                                "isascii_l",
                                                "isblank_l",
                                                "iscntrl_l",
                                                "isdigit_l",
                                                "isgraph_l",
                                                "islower_l",
                                                "isprint_l",
                                                "ispunct_l",
                                                "isspace_l",
                                                "isupper_l",
                                                "isxdigit_l",
                                                "kill_dependency",
                                                "math_errhandling",
                                                "nl_catd",
                                                "nl_item",
                                                "not_eq",
                                                "or_eq",
                                                "pthread_cleanup_pop",
                                                "pthread_cleanup_pop_restore_np",
                                                "pthread_cleanup_push",
                                                "pthread_cleanup_push_defer_np",
                                                "reinterpret_cast",
                                                "s6_addr",
                                                "s6_addr16",
                                                "s6_addr32",
                                                "sa_handler",
                                                "sa_sigaction",
                                                "sched_priority",
                                                "si_addr",
                                                "si_addr_lsb",
                                                "si_arch",
                                                "si_band",
                                                "si_call_addr",
                                                "si_fd",
                                                "si_int",
                                                "si_lower",
                                                "si_overrun",
                                                "si_pid",
                                                "si_pkey",
                                                "si_ptr",
                                                "si_status",
                                                "si_stime",
                                                "si_syscall",
                                                "si_timerid",
                                                "si_uid",
                                                "si_upper",
                                                "si_utime",
                                                "si_value",
                                                "sigev_notify_attributes",
                                                "sigev_notify_function",
                                                "st_atime",
                                                "st_ctime",
                                                "st_mtime",
                                                "static_assert",
                                                "static_cast",
                                                "thread_local",
                                                "toascii_l",
                                                "typeof_unqual",
                                                "u_char",
                                                "u_int",
                                                "u_long",
                                                "u_short",
                                                "va_arg",
                                                "va_copy",
                                                "va_end",
                                                "va_list",
                                                "va_start",
                                                "xor_eq"};
/// <name.h> in C, POSIX or Linux; a folder of ours on the compiler's path must not stand before them.
constexpr std::string_view headers[] = {
    "aio",       "alloca",  "ar",        "assert",   "byteswap", "complex", "cpio",     "crypt",       "ctype",
    "dirent",    "dlfcn",   "elf",       "endian",   "err",      "errno",   "error",    "execinfo",    "fcntl",
    "features",  "fenv",    "float",     "fmtmsg",   "fnmatch",  "ftw",     "getopt",   "glob",        "grp",
    "iconv",     "ifaddrs", "inttypes",  "iso646",   "langinfo", "libgen",  "limits",   "link",        "locale",
    "malloc",    "math",    "mcheck",    "memory",   "monetary", "mqueue",  "ndbm",     "netdb",       "nl_types",
    "poll",      "printf",  "pthread",   "pty",      "pwd",      "regex",   "resolv",   "sched",       "search",
    "semaphore", "setjmp",  "shadow",    "signal",   "spawn",    "stab",    "stdalign", "stdarg",      "stdatomic",
    "stdbit",    "stdbool", "stdckdint", "stddef",   "stdint",   "stdio",   "stdlib",   "stdnoreturn", "string",
    "strings",   "stropts", "syslog",    "tar",      "termio",   "termios", "tgmath",   "thread_db",   "threads",
    "time",      "trace",   "uchar",     "ucontext", "ulimit",   "unistd",  "utime",    "utmp",        "utmpx",
    "values",    "wait",    "wchar",     "wctype",   "wordexp",
};
/// lib<name>.so that compilers link with unasked, and <name>.json that makes a folder one of Hugging Face.
constexpr std::string_view libraries_and_files[] = {"c", "m", "gcc", "gcc_s", "dl", "pthread", "config"};
/// First words of the names in heddle.h, in the runtime and in <stdatomic.h>.
constexpr std::string_view first_words[] = {"heddle", "rt", "halide", "atomic"};

template <size_t count> bool has(const std::string_view (&table)[count], std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

} // namespace

/// Whether the C or the maths library has it. Other libraries of this process don't count.
static bool is_c_function(const std::string &name) {
  for (const char *library : {"libc.so.6", "libm.so.6"})
    if (void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) {
      bool found = dlsym(handle, name.c_str()) != nullptr;
      dlclose(handle);
      if (found)
        return true;
    }
  return false;
}

std::string library_name(const std::string &stem) {
  std::string out;
  for (unsigned char c : stem)
    out += std::isalnum(c) ? static_cast<char>(std::tolower(c)) : '_';
  std::string first = out.substr(0, out.find('_'));
  bool begins_well = !out.empty() && (out[0] == '_' || std::isalpha(static_cast<unsigned char>(out[0])));
  if (!begins_well || has(first_words, first) || has(headers, out) || has(libraries_and_files, out))
    out = "model_" + out;
  return out;
}

std::string free_c_name(std::string name, std::set<std::string> &taken) {
  auto clashes = [&] {
    return taken.count(name) || name.ends_with("_t") || has(words_and_types, name) || is_c_function(name);
  };
  while (clashes())
    name += "_";
  taken.insert(name);
  return name;
}

} // namespace heddle
