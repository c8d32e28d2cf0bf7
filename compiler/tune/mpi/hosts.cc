// The library that speaks MPI lies beside those that the command runs with, where it was built.
#include "compiler/tune/hosts.h"

#include "compiler/tune/machine.h"
#include "compiler/tune/mpi/open_mpi.h"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <unistd.h>

namespace heddle::tune {

namespace {

struct Library {
  decltype(&heddle_mpi_begin) begin;
  decltype(&heddle_mpi_send) send;
  decltype(&heddle_mpi_wait) wait;
  decltype(&heddle_mpi_receive) receive;
  decltype(&heddle_mpi_end) end;
};

Result<Library> open_library() {
  std::error_code failed;
  std::filesystem::path command = std::filesystem::read_symlink("/proc/self/exe", failed);
  std::string path = command.parent_path().parent_path() / "lib/heddle/libheddle_mpi.so";
  // Global: what Open MPI loads in turn looks there for its functions.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return Error{"mpirun has started this command, whose part for Open MPI is not there: " + std::string(dlerror())};
  Library out;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  if (!find(out.begin, "heddle_mpi_begin") || !find(out.send, "heddle_mpi_send") ||
      !find(out.wait, "heddle_mpi_wait") || !find(out.receive, "heddle_mpi_receive") ||
      !find(out.end, "heddle_mpi_end"))
    return Error{path + ": is of another version of Heddle"};
  return out;
}

class MpiHosts : public Hosts {
public:
  MpiHosts(Library library, int self, int count) : library_(library), self_(self), count_(count) {}
  ~MpiHosts() override {
    if (self_ == 0)
      for (int other = 1; other < count_; ++other)
        send(other, "");
    library_.end();
  }
  int count() const override { return count_; }
  int self() const override { return self_; }
  // A message that fails ends all processes: that is how MPI treats errors unless told otherwise.
  void send(int to, const std::string &text) override { library_.send(to, text.data(), int(text.size())); }
  std::string receive(int from) override {
    std::string out(size_t(std::max(library_.wait(from), 0)), '\0');
    library_.receive(from, out.data(), int(out.size()));
    return out;
  }

private:
  Library library_;
  int self_, count_;
};

} // namespace

Result<std::unique_ptr<Hosts>> Hosts::join() {
  const char *size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (!size || std::atoi(size) < 2)
    return std::unique_ptr<Hosts>();
  auto library = open_library();
  if (!library)
    return library.error();
  int self = 0, count = 1;
  if (library->begin(&self, &count) != 0)
    return Error{"Open MPI does not start"};
  std::unique_ptr<Hosts> out = std::make_unique<MpiHosts>(*library, self, count);
  std::string machine = this_machine();
  if (self > 0) {
    out->send(0, machine);
    return out;
  }
  std::string unlike;
  for (int other = 1; other < count; ++other)
    if (std::string theirs = out->receive(other); theirs != machine)
      unlike = "a search is for machines of one kind: this one is " + machine + ", that of process " +
               std::to_string(other) + " " + theirs;
  if (!unlike.empty())
    return Error{unlike};
  return out;
}

} // namespace heddle::tune
