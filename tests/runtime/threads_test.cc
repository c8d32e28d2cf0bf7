// The thread pool: same results for any number of threads, many sessions at once, one CPU, fork, custom threads, and
// the limits that the system sets. Compiled with -fsanitize=thread it is also the pool's race test.
#include "fake_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <sched.h>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <xmmintrin.h>

using namespace fake;

extern "C" int32_t rt_cgroup_cpus(const char *membership, const char *root);

namespace {

float input_of(size_t i) { return static_cast<float>(i * 2654435761u % 1000) / 7.0f; }

std::vector<float> run_spread(heddle_session *session, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n)), y(x.size(), -1);
  for (size_t i = 0; i < x.size(); i++)
    x[i] = input_of(i);
  heddle_tensor input = tensor("x", HEDDLE_F32, x.data(), {n}), result = tensor("y", HEDDLE_F32, y.data(), {n});
  EXPECT_EQ(heddle_run(session, spread, &input, 1, &result, 1), HEDDLE_OK) << heddle_last_error();
  return y;
}

std::vector<float> expected_spread(int64_t n) {
  std::vector<float> y;
  double sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(n); i++)
    y.push_back(static_cast<float>(sum += input_of(i)));
  return y;
}

int cpus() {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  return CPU_COUNT(&mask);
}

// Runs an entry of our own making on a session.
heddle_status run_parallel(Fixture &f, std::function<int32_t(const heddle_call &)> what) {
  run_custom = std::move(what);
  float x = 0;
  heddle_tensor input = tensor("x", HEDDLE_F32, &x, {1});
  return heddle_run(f.session, custom, &input, 1, nullptr, 0);
}

int for_each(void *context, int n, std::function<int(int)> body) {
  return halide_do_par_for(
      context,
      [](void *, int i, uint8_t *closure) { return (*reinterpret_cast<std::function<int(int)> *>(closure))(i); }, 0, n,
      reinterpret_cast<uint8_t *>(&body));
}

TEST(Threads, results_do_not_depend_on_their_number) {
  for (int32_t threads : {1, 2, 3, 64, 0}) {
    Fixture f(threads);
    for (int64_t n : {1, 2, 3, 17, 300})
      EXPECT_EQ(run_spread(f.session, n), expected_spread(n)) << threads << " threads";
  }
}

TEST(Threads, no_more_than_the_cpus_are_used) {
  Fixture one(1), all(0), many(10000);
  int32_t threads = 0;
  ASSERT_EQ(heddle_session_threads(one.session, &threads), HEDDLE_OK);
  EXPECT_EQ(threads, 1);
  ASSERT_EQ(heddle_session_threads(many.session, &threads), HEDDLE_OK);
  EXPECT_EQ(threads, cpus());
  ASSERT_EQ(heddle_session_threads(all.session, &threads), HEDDLE_OK);
  EXPECT_GE(threads, 1);
  EXPECT_LE(threads, cpus());
}

TEST(Threads, a_second_thread_helps_on_another_cpu) {
  if (cpus() < 2)
    GTEST_SKIP() << "one CPU";
  Fixture f(2);
  std::set<std::thread::id> ids;
  std::set<int> used;
  std::mutex lock;
  // Help is not promised; on a machine with other work it may be seconds until there is a CPU for it.
  auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while ((ids.size() < 2 || used.size() < 2) && std::chrono::steady_clock::now() < patience) {
    ids.clear(), used.clear();
    ASSERT_EQ(run_parallel(f,
                           [&](const heddle_call &call) {
                             return for_each(call.context, 8, [&](int) {
                               auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
                               while (std::chrono::steady_clock::now() < end) {
                               }
                               std::lock_guard guard(lock);
                               ids.insert(std::this_thread::get_id());
                               used.insert(sched_getcpu());
                               return 0;
                             });
                           }),
              HEDDLE_OK);
  }
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(used.size(), 2u);
}

TEST(Threads, an_observer_is_told_of_every_task) {
  for (int32_t threads : {1, 0}) {
    Fixture f(threads);
    int32_t number = 0;
    ASSERT_EQ(heddle_session_threads(f.session, &number), HEDDLE_OK);
    struct Seen {
      std::mutex lock;
      std::vector<int> begun, ended;
      std::set<int32_t> threads;
    } seen;
    auto observer = [](void *context, int32_t thread, int32_t task, int32_t begins) {
      Seen &all = *static_cast<Seen *>(context);
      std::lock_guard guard(all.lock);
      (begins ? all.begun : all.ended).push_back(task);
      all.threads.insert(thread);
    };
    for (bool watched : {true, false}) {
      ASSERT_EQ(heddle_session_observe_tasks(f.session, watched ? +observer : nullptr, &seen), HEDDLE_OK);
      ASSERT_EQ(run_parallel(f,
                             [](const heddle_call &call) {
                               auto task = [](void *thread, int, uint8_t *) {
                                 return for_each(thread, 3, [](int) { return 0; }); // its rounds are no tasks
                               };
                               return halide_do_par_for(call.context, task, 0, 97, nullptr);
                             }),
                HEDDLE_OK);
    }
    std::vector<int> each(97);
    std::iota(each.begin(), each.end(), 0);
    for (std::vector<int> *tasks : {&seen.begun, &seen.ended}) {
      std::sort(tasks->begin(), tasks->end());
      EXPECT_EQ(*tasks, each);
    }
    EXPECT_GE(*seen.threads.begin(), 0);
    EXPECT_LT(*seen.threads.rbegin(), number);
  }
}

TEST(Threads, every_task_runs_once_and_an_error_stops_the_rest) {
  Fixture f(0);
  for (int round = 0; round < 200; round++) {
    std::vector<std::atomic<int>> done(97);
    ASSERT_EQ(run_parallel(f,
                           [&](const heddle_call &call) {
                             return for_each(call.context, 97, [&](int i) {
                               done[static_cast<size_t>(i)]++;
                               return 0;
                             });
                           }),
              HEDDLE_OK);
    for (auto &count : done)
      ASSERT_EQ(count, 1);
  }
  EXPECT_EQ(run_parallel(f,
                         [](const heddle_call &call) {
                           return for_each(call.context, 97, [](int i) { return i == 50 ? -27 : 0; });
                         }),
            HEDDLE_KERNEL_FAILED);
  EXPECT_STREQ(heddle_last_error(), "entry 'custom': a kernel failed with code -27; please report this");
  EXPECT_EQ(run_spread(f.session, 100), expected_spread(100)) << "the session goes on";
}

TEST(Threads, every_thread_computes_with_the_same_floating_point_mode) {
  Fixture f(0);
  std::mutex lock;
  std::set<unsigned> modes;
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x6000); // toward zero: the caller's business, not the kernels'
  ASSERT_EQ(run_parallel(f,
                         [&](const heddle_call &call) {
                           return for_each(call.context, 500, [&](int) {
                             std::lock_guard guard(lock);
                             modes.insert(_mm_getcsr() & ~0x3fu);
                             return 0;
                           });
                         }),
            HEDDLE_OK);
  EXPECT_EQ(_mm_getcsr() & 0x6000, 0x6000u);
  _mm_setcsr(before);
  EXPECT_EQ(modes, std::set<unsigned>{0x9fc0});
}

TEST(Threads, many_sessions_of_one_model_run_at_once) {
  heddle_model *model = load();
  std::vector<std::thread> callers;
  std::vector<float> expected = expected_spread(150);
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; t++)
    callers.emplace_back([&, t] {
      for (int round = 0; round < 10; round++) {
        heddle_session_options options = HEDDLE_INIT(heddle_session_options);
        options.threads = t % 3; // 0: all
        heddle_session *session = nullptr;
        if (heddle_session_create(model, &options, &session) != HEDDLE_OK) {
          wrong++;
          return;
        }
        for (int i = 0; i < 20; i++)
          wrong += run_spread(session, 150) != expected;
        wrong += heddle_session_free(session) != HEDDLE_OK;
      }
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(heddle_close(model), HEDDLE_OK) << heddle_last_error();
}

TEST(Threads, sleeping_workers_wake_up) {
  Fixture f(0);
  for (int round = 0; round < 20; round++) {
    EXPECT_EQ(run_spread(f.session, 60), expected_spread(60));
    std::this_thread::sleep_for(std::chrono::microseconds(round * 40)); // around the end of spinning
  }
}

TEST(Threads, a_thread_confined_to_one_cpu_stays_there) {
  std::thread([] {
    cpu_set_t before, mask;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&mask);
    CPU_SET(sched_getcpu(), &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    for (int32_t wanted : {0, 2}) {
      Fixture f(wanted);
      int32_t threads = 0;
      ASSERT_EQ(heddle_session_threads(f.session, &threads), HEDDLE_OK);
      EXPECT_EQ(threads, 1);
      EXPECT_EQ(run_spread(f.session, 100), expected_spread(100));
    }
  }).join();
}

TEST(Threads, a_forked_child_starts_threads_of_its_own) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the sanitizer has no threads after fork";
#endif
#endif
  Fixture f(0);
  std::vector<float> expected = expected_spread(200);
  EXPECT_EQ(run_spread(f.session, 200), expected);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool right = true;
    for (int i = 0; i < 20; i++)
      right &= run_spread(f.session, 200) == expected;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run_spread(f.session, 200), expected);
}

// ---- The caller's own threads

struct OwnThreads {
  int32_t concurrency = 4;
  int runs = 0, released = 0;
  heddle_threads callbacks = {this, [](void *self) { return static_cast<OwnThreads *>(self)->concurrency; },
                              [](void *self, int32_t count, void (*task)(void *, int32_t), void *data) {
                                static_cast<OwnThreads *>(self)->runs++;
                                std::vector<std::thread> threads;
                                for (int32_t i = count - 1; i >= 0; i--) // the caller's thread does none of them
                                  threads.emplace_back(task, data, i);
                                for (std::thread &thread : threads)
                                  thread.join();
                              },
                              [](void *self) { static_cast<OwnThreads *>(self)->released++; }};
};

TEST(Threads, custom_threads_replace_the_pool) {
  OwnThreads own;
  {
    Fixture f(0, &own.callbacks);
    int32_t threads = 0;
    ASSERT_EQ(heddle_session_threads(f.session, &threads), HEDDLE_OK);
    EXPECT_EQ(threads, 4);
    for (int i = 0; i < 5; i++)
      EXPECT_EQ(run_spread(f.session, 100), expected_spread(100));
    EXPECT_EQ(own.runs, 5) << "one for each parallel loop; nested ones are serial";
    heddle_session *copy = nullptr;
    EXPECT_EQ(heddle_session_clone(f.session, &copy), HEDDLE_UNSUPPORTED);
    EXPECT_STREQ(heddle_last_error(), "a session with custom threads cannot be cloned; create another one");
    EXPECT_EQ(own.released, 0);
  }
  EXPECT_EQ(own.released, 1);
}

TEST(Threads, each_begins_with_its_part_of_every_loop_and_then_takes_half_of_the_largest_left) {
  heddle_threads serial = {};
  serial.concurrency = [](void *) { return 3; };
  serial.run = [](void *, int32_t count, void (*task)(void *, int32_t), void *data) {
    for (int32_t i = count - 1; i >= 0; i--)
      task(data, i);
  };
  Fixture f(0, &serial);
  std::vector<std::pair<int32_t, int32_t>> begun; // threads and tasks
  ASSERT_EQ(heddle_session_observe_tasks(
                f.session,
                [](void *context, int32_t thread, int32_t task, int32_t begins) {
                  if (begins)
                    static_cast<decltype(begun) *>(context)->emplace_back(thread, task);
                },
                &begun),
            HEDDLE_OK);
  auto order = [&](int tasks) {
    begun.clear();
    EXPECT_EQ(
        run_parallel(f, [&](const heddle_call &call) { return for_each(call.context, tasks, [](int) { return 0; }); }),
        HEDDLE_OK);
    std::vector<int32_t> out;
    for (auto [thread, task] : begun) {
      EXPECT_EQ(thread, std::min(tasks, 3) - 1) << "the first one that comes leaves nothing to the others";
      out.push_back(task);
    }
    return out;
  };
  EXPECT_EQ(order(12), (std::vector<int32_t>{8, 9, 10, 11, 2, 3, 6, 7, 1, 5, 0, 4}));
  EXPECT_EQ(order(4), (std::vector<int32_t>{2, 3, 0, 1}));
  EXPECT_EQ(order(2), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(order(1), (std::vector<int32_t>{0}));
}

TEST(Threads, custom_threads_may_be_limited_serial_or_wrong) {
  OwnThreads own;
  {
    Fixture f(2, &own.callbacks);
    int32_t threads = 0;
    ASSERT_EQ(heddle_session_threads(f.session, &threads), HEDDLE_OK);
    EXPECT_EQ(threads, 2);
  }
  heddle_threads serial = own.callbacks;
  serial.release = nullptr;
  serial.run = [](void *, int32_t count, void (*task)(void *, int32_t), void *data) {
    for (int32_t i = -1; i <= count; i++) // two too many
      task(data, i);
  };
  Fixture f(0, &serial);
  EXPECT_EQ(run_spread(f.session, 100), expected_spread(100));
  own.concurrency = 0;
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.custom = &own.callbacks;
  heddle_session *session = nullptr;
  EXPECT_EQ(heddle_session_create(f.model, &options, &session), HEDDLE_INVALID_ARGUMENT);
  EXPECT_STREQ(heddle_last_error(), "the callback `concurrency` returned 0; it must be at least 1");
}

// ---- Control groups

struct Groups {
  std::string root = write_temporary("cgroup/membership", {});
  Groups() { root = root.substr(0, root.rfind('/')); }
  void write(const std::string &path, const std::string &text) {
    write_temporary("cgroup/" + path, {text.begin(), text.end()});
  }
  int32_t cpus() { return rt_cgroup_cpus((root + "/membership").c_str(), root.c_str()); }
};

TEST(Threads, the_quota_of_the_control_group_or_any_above_counts) {
  Groups groups;
  groups.write("membership", "0::/a/b\n");
  EXPECT_EQ(groups.cpus(), 0);
  groups.write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(groups.cpus(), 0);
  groups.write("a/cpu.max", "350000 100000\n");
  EXPECT_EQ(groups.cpus(), 4) << "rounded up";
  groups.write("a/b/cpu.max", "200000 100000\n");
  EXPECT_EQ(groups.cpus(), 2);
  groups.write("cpu.max", "50000 100000\n");
  EXPECT_EQ(groups.cpus(), 1);
  groups.write("membership", "0::/not/mounted/here\n");
  EXPECT_EQ(groups.cpus(), 1) << "the root's own, as in a container";
  groups.write("membership", "nonsense\n");
  EXPECT_EQ(groups.cpus(), 0);
}

TEST(Threads, the_quota_of_an_old_control_group_counts_too) {
  Groups groups;
  groups.write("membership", "7:cpuset:/x\n4:cpu,cpuacct:/a\n0::/\n");
  groups.write("cpu.max", "max 100000\n");
  groups.write("cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n");
  groups.write("cpu,cpuacct/a/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(groups.cpus(), 3);
  groups.write("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(groups.cpus(), 0);
  groups.write("membership", "4:cpuacct,cpu:/\n");
  groups.write("cpuacct,cpu/cpu.cfs_quota_us", "100000\n");
  groups.write("cpuacct,cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(groups.cpus(), 1);
}

} // namespace
