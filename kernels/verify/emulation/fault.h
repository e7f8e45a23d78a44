// fault.h: faults that a test injects into the kernels, to see that the emulation
// finds them: each is an instruction left out, or one operand of it changed.
#pragma once
#include <atomic>

namespace kd {

enum Fault {
  NO_FAULT,
  NO_PROXY_FENCE,    // fence.proxy.async
  NO_WGMMA_FENCE,    // wgmma.fence
  NO_COMMIT,         // wgmma.commit_group
  NO_BARRIER,        // bar.sync
  EARLY_REFILL,      // wgmma.wait_group leaves one group more: a place is filled one tile early
  NO_LAST_WAIT,      // wgmma.wait_group 0
  EARLY_PRODUCT,     // cp.async.wait_group leaves one group more
  SWAPPED_OFFSETS,   // a descriptor's leading and stride offsets
  WRONG_LEADING,     // a descriptor's leading offset, twice what it should be
  WRONG_STRIDE,      // a descriptor's stride offset, twice what it should be
  WRONG_TRANSPOSE_A, // the transposition bits
  WRONG_TRANSPOSE_B,
  WRONG_SWIZZLE,     // the swizzle is that of 64 bytes
  NOT_ALIGNED,       // the tiles begin where the dynamic shared memory does
  FAULTS
};
inline std::atomic<int> fault{NO_FAULT};

} // namespace kd
