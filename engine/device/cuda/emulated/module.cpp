// Modules, functions and launches. A module is real PTX text, and must be what the
// sources built in here were compiled to; entry points are looked up in it, and
// their parameters are checked against the kernel that the emulation will run.
#include "emulated.h"
#include "../../../../kernels/verify/emulation/registry.h"

using namespace emu;

namespace {

struct Module : Object {
  Module() : Object(MODULE) {}
  std::string ptx;
  int target = 0;
};

// param_bytes is the size of a .param declaration: ".param .u64 name" or
// ".param .align 8 .b8 name[16]".
int param_bytes(const std::string &decl) {
  size_t open = decl.find('[');
  int n = open == std::string::npos ? 1 : atoi(decl.c_str() + open + 1);
  for (const char *t : {".u64", ".s64", ".b64", ".f64"})
    if (decl.find(t) != std::string::npos) return 8 * n;
  for (const char *t : {".u32", ".s32", ".b32", ".f32"})
    if (decl.find(t) != std::string::npos) return 4 * n;
  for (const char *t : {".u16", ".s16", ".b16", ".f16"})
    if (decl.find(t) != std::string::npos) return 2 * n;
  return n;
}

struct Function : Object {
  Function(const kd::Kernel *k, const Module *m) : Object(FUNCTION), kernel(k), module(m) {}
  const kd::Kernel *kernel;
  const Module *module;
  unsigned max_threads = 1024; // .maxntid
  int fixed = 0;               // shared memory that the kernel itself declares
  int max_dynamic = 48 << 10;
  int optin = 0;
  bool loaded = false; // the first use loads it, unless something asked for it before
};

bool usable(const void *f) { return live(f, FUNCTION) && live(((const Function *)f)->module, MODULE); }

// declared is the shared memory that a piece of PTX declares.
int declared(const std::string &ptx) {
  int n = 0;
  for (size_t at = 0; (at = ptx.find("\t.shared ", at)) != std::string::npos; at++) {
    int align = 1;
    if (const char *a = strstr(ptx.c_str() + at, ".align ")) align = atoi(a + 7);
    n = (n + align - 1) / align * align + param_bytes(ptx.substr(at + 9, ptx.find(';', at) - at - 9));
  }
  return n;
}

// newest is the PTX version, times ten, that a driver of this CUDA version compiles
// (PTX ISA, release notes): 7.0 came with CUDA 11.0, 8.0 with 12.0, 9.0 with 13.0;
// 12.4 and 12.5 differ from the later minor ones.
int newest(int driver) {
  int major = driver / 1000, minor = driver % 1000 / 10;
  if (major == 12 && minor > 5) minor--;
  return 10 * (major - 4) + minor;
}

std::vector<int> params(const std::string &list) {
  std::vector<int> sizes;
  for (size_t at = list.find(".param"); at != std::string::npos;) {
    size_t next = list.find(".param", at + 6);
    sizes.push_back(param_bytes(list.substr(at + 6, next == std::string::npos ? next : next - at - 6)));
    at = next;
  }
  return sizes;
}

const struct { uint32_t sum; size_t size; const char *name; } known[] = {
#include "known.h" // written by known.sh
};

// sum is the checksum of POSIX's cksum.
uint32_t sum(const std::string &s) {
  uint32_t crc = 0;
  auto add = [&](uint8_t b) {
    crc ^= (uint32_t)b << 24;
    for (int i = 0; i < 8; i++) crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7u : 0);
  };
  for (char c : s) add((uint8_t)c);
  for (size_t n = s.size(); n; n >>= 8) add((uint8_t)n);
  return ~crc;
}

bool is_known(const std::string &ptx) {
  for (auto &k : known)
    if (k.size == ptx.size() && k.sum == sum(ptx)) return true;
  return false;
}

int load(void **m, const char *text, std::string *log) {
  if (int r = unsafe()) return r;
  auto mod = std::make_unique<Module>();
  mod->ptx = text;
  size_t at = mod->ptx.find(".target sm_");
  if (mod->ptx.find(".version ") == std::string::npos || at == std::string::npos) {
    *log = "no .version and .target: not PTX";
    return INVALID_PTX;
  }
  int major = 0, minor = 0, sm = (int)setting("GPUSTALL_EMU_SM", 80);
  sscanf(mod->ptx.c_str() + mod->ptx.find(".version "), ".version %d.%d", &major, &minor);
  if (10 * major + minor > newest((int)setting("GPUSTALL_EMU_DRIVER", 12040))) {
    *log = "the PTX is newer than the driver";
    return UNSUPPORTED_PTX_VERSION;
  }
  // sm_90a and its like run on that very capability alone.
  size_t digits = mod->ptx.find_first_not_of("0123456789", at + 11);
  bool exact = mod->ptx[digits] == 'a';
  mod->target = atoi(mod->ptx.c_str() + at + 11);
  if (mod->target > sm || (exact && mod->target != sm)) {
    *log = "SM version of the module is higher than the device's";
    return NO_BINARY_FOR_GPU;
  }
  if (!is_known(mod->ptx)) {
    *log = "the emulated driver was built from other kernels than this PTX: run make emulated, and build the program again";
    fprintf(stderr, "emulated driver: %s\n", log->c_str());
    return INVALID_PTX;
  }
  *m = mod.release();
  return OK;
}

} // namespace

API cuModuleLoadData(void **m, const void *image) {
  std::string log;
  return load(m, (const char *)image, &log);
}
API cuModuleLoadDataEx(void **m, const void *image, unsigned n, int *options, void **values) {
  std::string log;
  int r = load(m, (const char *)image, &log);
  char *out = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == 5) out = (char *)values[i];   // ERROR_LOG_BUFFER
    if (options[i] == 6) size = (size_t)values[i]; // ERROR_LOG_BUFFER_SIZE_BYTES
  }
  if (r && out && size) snprintf(out, size, "%s", log.c_str());
  return r;
}
API cuModuleUnload(void *m) {
  if (int r = check()) return r;
  if (!live(m, MODULE)) return INVALID_HANDLE;
  ((Module *)m)->kind = GONE;
  ((Module *)m)->ptx.clear();
  return OK;
}

API cuModuleGetFunction(void **f, void *m, const char *name) {
  if (int r = check()) return r;
  if (!live(m, MODULE)) return INVALID_HANDLE;
  const std::string &ptx = ((Module *)m)->ptx;
  size_t at = ptx.find(std::string(".entry ") + name + "(");
  if (at == std::string::npos) return NOT_FOUND;
  const kd::Kernel *k = kd::find(name);
  if (!k) {
    fprintf(stderr, "emulated driver: %s is in the PTX and not among the emulated kernels: rebuild the driver\n", name);
    return NOT_FOUND;
  }
  size_t open = ptx.find('(', at), close = ptx.find(')', open), body = ptx.find('{', close);
  std::vector<int> sizes = params(ptx.substr(open, close - open));
  bool same = (int)sizes.size() == k->params;
  for (int i = 0; same && i < k->params; i++) same = sizes[(size_t)i] == k->sizes[i];
  if (!same) {
    fprintf(stderr, "emulated driver: %s has other parameters in the PTX (%zu) than in the source (%d): rebuild the PTX\n", name, sizes.size(), k->params);
    return INVALID_PTX;
  }
  auto fn = new Function(k, (Module *)m);
  size_t max = ptx.find(".maxntid", close);
  if (max != std::string::npos && max < body) {
    unsigned x = 1, y = 1, z = 1;
    sscanf(ptx.c_str() + max + 8, " %u , %u , %u", &x, &y, &z);
    fn->max_threads = x * y * z;
  }
  int sm = (int)setting("GPUSTALL_EMU_SM", 80);
  size_t end = ptx.find("\n}", body);
  fn->fixed = declared(ptx.substr(body, end - body));
  fn->max_dynamic -= fn->fixed;
  fn->optin = (sm >= 90 ? 227 : sm == 80 ? 163 : sm == 70 ? 96 : sm == 75 ? 64 : 99) << 10;
  *f = fn;
  return OK;
}
API cuFuncGetAttribute(int *v, int a, void *f) {
  if (int r = check()) return r;
  if (!usable(f)) return INVALID_HANDLE;
  Function *fn = (Function *)f;
  fn->loaded = true;
  *v = a == 0 ? (int)fn->max_threads : a == 1 ? fn->fixed : a == 8 ? fn->max_dynamic : 0;
  return OK;
}
API cuFuncSetAttribute(void *f, int a, int v) {
  if (int r = check()) return r;
  if (!usable(f)) return INVALID_HANDLE;
  Function *fn = (Function *)f;
  if (a != 8) return OK;
  if (v < 0 || v > fn->optin - fn->fixed) return INVALID_VALUE;
  fn->max_dynamic = v;
  return OK;
}

API cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **p, void **extra) {
  static const bool noop = setting("GPUSTALL_EMU_NOOP", 0) != 0;
  if (int r = check()) return r;
  if (noop) return OK;
  if (!usable(f) || !is_stream(s)) return INVALID_HANDLE;
  Function *fn = (Function *)f;
  if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || !bx || !by || !bz || bx * by * bz > fn->max_threads || extra || (int)shared > fn->max_dynamic || bz > 64)
    return INVALID_VALUE;
  if (!fn->loaded) {
    if (int r = spoil()) return r;
    fn->loaded = true;
  }
  static const long bad = setting("GPUSTALL_EMU_FAULT", 0);
  static std::atomic<long> launches{0};
  if (bad > 0 && ++launches == bad) {
    stream(s)->push([] { fail(ILLEGAL_ADDRESS); });
    return OK;
  }
  const kd::Kernel *k = fn->kernel;
  if (const char *part = getenv("GPUSTALL_EMU_FAULTY"); part && *part && strstr(k->name, part)) {
    const char *how = getenv("GPUSTALL_EMU_FAULTS");
    if (how && !strcmp(how, "crash")) abort();
    if (how && !strcmp(how, "hang")) stream(s)->push([] { for (;;) std::this_thread::sleep_for(std::chrono::hours(1)); });
    else stream(s)->push([] { fail(ILLEGAL_ADDRESS); });
    return OK;
  }
  // The arguments are copied now, as the driver does.
  auto args = std::make_shared<std::vector<uint64_t>>();
  for (int i = 0; i < k->params; i++) {
    args->resize(args->size() + (k->sizes[i] + 7u) / 8);
    memcpy(&(*args)[args->size() - (k->sizes[i] + 7u) / 8], p[i], k->sizes[i]);
  }
  stream(s)->push([=] {
    std::vector<void *> ptrs((size_t)k->params);
    size_t at = 0;
    for (int i = 0; i < k->params; i++) {
      ptrs[(size_t)i] = &(*args)[at];
      at += (k->sizes[i] + 7u) / 8;
    }
    k->run(k, dim3(gx, gy, gz), dim3(bx, by, bz), shared, ptrs.data());
  });
  return OK;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *, int threads, size_t) {
  *n = threads > 0 ? 2048 / threads : 0;
  return OK;
}
