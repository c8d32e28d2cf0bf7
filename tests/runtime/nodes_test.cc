// Memory nodes, simulated: the CPUs of this machine are dealt out to two nodes, each of which has an allocator of its
// own. What a thread of a node makes stays on the node: weights, arena, scratch, and the threads that share the work.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <sched.h>
#include <set>
#include <thread>

using namespace fake;

namespace {

struct Node {
  cpu_set_t cpus{};
  std::mutex lock;
  std::map<const char *, size_t> blocks;

  heddle_allocator allocator() {
    return {this,
            [](void *context, size_t bytes) {
              auto *self = static_cast<Node *>(context);
              std::lock_guard guard(self->lock);
              void *block = malloc(bytes);
              self->blocks[static_cast<char *>(block)] = bytes;
              return block;
            },
            [](void *context, void *block, size_t) {
              auto *self = static_cast<Node *>(context);
              std::lock_guard guard(self->lock);
              self->blocks.erase(static_cast<char *>(block));
              free(block);
            }};
  }
  bool holds(const void *address) {
    std::lock_guard guard(lock);
    for (auto [block, bytes] : blocks)
      if (address >= block && address < block + bytes)
        return true;
    return false;
  }
};

/// The CPUs of this process, every other one of them; all of them on both nodes where there is only one.
void deal_out(Node (&nodes)[2]) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  int dealt = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all)) {
      CPU_SET(cpu, &nodes[dealt % 2].cpus);
      ++dealt;
    }
  if (dealt == 1)
    nodes[1].cpus = nodes[0].cpus;
}

/// A model and a session that are made and called by a thread of a node.
void serve(Node &node, Node &other) {
  ASSERT_EQ(sched_setaffinity(0, sizeof node.cpus, &node.cpus), 0);
  heddle_allocator here = node.allocator();
  std::string weights = write_temporary("nodes.weights", weights_file());
  heddle_model_options copied = HEDDLE_INIT(heddle_model_options);
  copied.weights = weights.c_str();
  copied.flags = HEDDLE_COPY_WEIGHTS;
  copied.allocator = &here;
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.allocator = &here;
  heddle_model *model = nullptr;
  heddle_session *session = nullptr;
  ASSERT_EQ(heddle_api_1.model_load(&copied, &model), HEDDLE_OK) << heddle_api_1.last_error();
  ASSERT_EQ(heddle_session_create(model, &options, &session), HEDDLE_OK) << heddle_last_error();
  int32_t threads = 0;
  ASSERT_EQ(heddle_session_threads(session, &threads), HEDDLE_OK);
  EXPECT_LE(threads, CPU_COUNT(&node.cpus));

  struct Used {
    Node &node;
    std::mutex lock;
    std::set<int> cpus;
    std::set<const void *> scratch;
  } used{node, {}, {}, {}};
  std::set<const void *> memory;
  custom_nothing = custom_once = nullptr; // of tests before
  custom_arena = [](const int64_t *) { return 5000; };
  run_custom = [&](const heddle_call &call) {
    memory = {call.weights, call.arena};
    auto task = [](void *thread, int, uint8_t *closure) {
      Used &all = *reinterpret_cast<Used *>(closure);
      void *block = halide_malloc(thread, 3000);
      {
        std::lock_guard guard(all.lock);
        all.cpus.insert(sched_getcpu());
        all.scratch.insert(block);
      }
      halide_free(thread, block);
      return 0;
    };
    return halide_do_par_for(call.context, task, 0, 64, reinterpret_cast<uint8_t *>(&used));
  };
  float x = 0;
  heddle_tensor input = tensor("x", HEDDLE_F32, &x, {1});
  for (int round = 0; round < 20; ++round)
    ASSERT_EQ(heddle_run(session, custom, &input, 1, nullptr, 0), HEDDLE_OK) << heddle_last_error();
  for (int cpu : used.cpus)
    EXPECT_TRUE(CPU_ISSET(cpu, &node.cpus)) << "a task ran on CPU " << cpu << " of the other node";
  memory.merge(used.scratch);
  EXPECT_GE(memory.size(), 3u) << "weights, arena, scratch";
  for (const void *address : memory) {
    EXPECT_TRUE(node.holds(address));
    EXPECT_FALSE(other.holds(address));
  }
  EXPECT_EQ(heddle_session_free(session), HEDDLE_OK);
  EXPECT_EQ(heddle_close(model), HEDDLE_OK) << heddle_last_error();
  custom_arena = nullptr;
  run_custom = nullptr;
}

TEST(Nodes, what_a_thread_of_a_node_makes_stays_there) {
  Node nodes[2];
  deal_out(nodes);
  for (int round = 0; round < 2; ++round) // the workers of the first round are there in the second
    for (int node : {0, 1})
      std::thread([&] { serve(nodes[node], nodes[1 - node]); }).join();
  for (Node &node : nodes)
    EXPECT_TRUE(node.blocks.empty());
}

} // namespace
