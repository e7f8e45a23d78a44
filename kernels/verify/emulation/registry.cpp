// registry.cpp: all kernels, compiled for the host.
#include "kernels.h"
#include <map>
#include <string>

namespace kd {
static std::map<std::string, Kernel> &kernels() {
  static std::map<std::string, Kernel> m;
  return m;
}
void add(const Kernel &k) {
  if (!kernels().emplace(k.name, k).second) {
    fprintf(stderr, "kernel %s is registered twice\n", k.name);
    _Exit(70);
  }
}
const Kernel *find(const char *name) {
  auto at = kernels().find(name);
  return at == kernels().end() ? nullptr : &at->second;
}
} // namespace kd
