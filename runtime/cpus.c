// Where threads may run: the affinity mask of the calling thread, with one CPU of each core before the second ones,
// and the share of time that the control group allows. Read when a session is created.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

// The lowest CPU on the same core; the CPU itself where the system does not say.
static int core_of(int cpu) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  FILE *file = fopen(path, "re");
  int core = cpu;
  if (file) {
    if (fscanf(file, "%d", &core) != 1 || core < 0 || core >= RT_MOST_CPUS)
      core = cpu;
    fclose(file);
  }
  return core;
}

void rt_cpus_allowed(rt_cpus *cpus) {
  cpus->count = cpus->cores = 0;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) { // more CPUs than the mask holds, or a sandbox: stay here
    int cpu = sched_getcpu();
    CPU_ZERO(&mask);
    CPU_SET(cpu >= 0 && cpu < RT_MOST_CPUS ? cpu : 0, &mask);
  }
  bool seen[RT_MOST_CPUS] = {false}; // cores
  uint16_t second[RT_MOST_CPUS], second_core[RT_MOST_CPUS];
  int32_t seconds = 0;
  for (int cpu = 0; cpu < RT_MOST_CPUS; cpu++) {
    if (!CPU_ISSET(cpu, &mask))
      continue;
    int core = core_of(cpu);
    if (seen[core]) {
      second[seconds] = (uint16_t)cpu;
      second_core[seconds++] = (uint16_t)core;
      continue;
    }
    seen[core] = true;
    cpus->cpu[cpus->cores] = (uint16_t)cpu;
    cpus->core[cpus->cores++] = (uint16_t)core;
  }
  memcpy(cpus->cpu + cpus->cores, second, (size_t)seconds * sizeof *second);
  memcpy(cpus->core + cpus->cores, second_core, (size_t)seconds * sizeof *second);
  cpus->count = cpus->cores + seconds;
}

// One quota in whole CPUs, rounded up; 0: none. v2 keeps quota and period in one file, v1 in two.
static int32_t quota_of(const char *folder, bool v2) {
  char path[4300];
  long long quota = -1, period = 0;
  snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
  FILE *file = fopen(path, "re");
  if (!file)
    return 0;
  int fields = fscanf(file, v2 ? "%lld %lld" : "%lld", &quota, &period); // "max 100000" gives no number
  fclose(file);
  if (!v2 && fields == 1) {
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    file = fopen(path, "re");
    if (!file)
      return 0;
    fields += fscanf(file, "%lld", &period);
    fclose(file);
  }
  if (fields != 2 || quota <= 0 || period <= 0)
    return 0;
  long long cpus = (quota + period - 1) / period;
  return cpus < RT_MOST_CPUS ? (int32_t)cpus : RT_MOST_CPUS;
}

static int32_t smaller(int32_t a, int32_t b) { return !a ? b : !b ? a : a < b ? a : b; }

// Whether a list such as "cpuacct,cpu" has the controller of CPU time.
static bool has_cpu(const char *controllers) {
  for (const char *at = controllers; (at = strstr(at, "cpu")); at += 3)
    if ((at == controllers || at[-1] == ',') && (at[3] == 0 || at[3] == ','))
      return true;
  return false;
}

int32_t rt_cgroup_cpus(const char *membership, const char *root) {
  FILE *file = fopen(membership, "re");
  if (!file)
    return 0;
  int32_t cpus = 0;
  char line[4096];
  while (fgets(line, sizeof line, file)) { // "0::/a/b" (v2) or "4:cpu,cpuacct:/a/b" (v1)
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
      continue;
    *group++ = 0;
    controllers++;
    bool v2 = !*controllers;
    if (!v2 && !has_cpu(controllers))
      continue;
    // A limit may stand at any level above. Inside a container the group's own path may not exist: then only the root.
    for (;;) {
      char folder[4200];
      snprintf(folder, sizeof folder, "%.1000s%s%.60s%.3000s", root, v2 ? "" : "/", controllers, group);
      cpus = smaller(cpus, quota_of(folder, v2));
      char *slash = strrchr(group, '/');
      if (!slash || !*group)
        break;
      *slash = 0;
    }
  }
  fclose(file);
  return cpus;
}
