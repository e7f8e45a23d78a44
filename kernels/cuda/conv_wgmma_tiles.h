// conv_wgmma_tiles.h: the shapes of the wgmma kernels: CONV_WGMMA(type, T, BM, BN,
// stages, warpgroups along M, warpgroups along N, blocks a multiprocessor, the end of
// the name, with the proxy fence or not). tiles.go lists the same.
#define CONV_WGMMA_TILES(type, T)                   \
  CONV_WGMMA(type, T, 128, 128, 3, 2, 1, 2, , true) \
  CONV_WGMMA(type, T, 128, 256, 4, 2, 1, 1, , true) \
  CONV_WGMMA(type, T, 256, 128, 4, 2, 1, 1, , true) \
  CONV_WGMMA(type, T, 256, 64, 4, 2, 1, 1, , true)  \
  CONV_WGMMA(type, T, 128, 64, 4, 2, 1, 2, , true)
#define CONV_WGMMA_TILES_WIDE(type, T)              \
  CONV_WGMMA(type, T, 64, 256, 4, 1, 2, 1, , true)  \
  CONV_WGMMA(type, T, 64, 128, 4, 1, 2, 2, , true)
// What the fence costs on a GPU is not known, and whether one needs it: this one leaves
// it out against the manual, for gpu-check alone (Experiments in tiles.go). Modules of
// its own, so that nothing else changes with it.
#if (defined(KD_UNFENCED) || !defined(__CUDA__)) && KD_TYPES & KD_BF16
CONV_WGMMA(bf16, bf16, 128, 128, 3, 2, 1, 2, u, false)
#endif
#ifndef KD_UNFENCED
#if KD_TYPES & KD_FP16
CONV_WGMMA_TILES(fp16, f16)
#ifdef CONV_TILES_WIDE
CONV_WGMMA_TILES_WIDE(fp16, f16)
#endif
#endif
#if KD_TYPES & KD_BF16
CONV_WGMMA_TILES(bf16, bf16)
#ifdef CONV_TILES_WIDE
CONV_WGMMA_TILES_WIDE(bf16, bf16)
#endif
#endif
#endif
#undef CONV_WGMMA
#undef CONV_WGMMA_TILES
#undef CONV_WGMMA_TILES_WIDE
