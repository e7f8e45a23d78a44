// conv_wgmma_tiles.h: the shapes of the wgmma kernels: CONV_WGMMA(type, T, BM, BN,
// stages, warpgroups along M, warpgroups along N, blocks a multiprocessor).
// cuda_wgmma.go lists the same.
#define CONV_WGMMA_TILES(type, T)             \
  CONV_WGMMA(type, T, 128, 128, 3, 2, 1, 2)   \
  CONV_WGMMA(type, T, 128, 256, 4, 2, 1, 1)   \
  CONV_WGMMA(type, T, 256, 128, 4, 2, 1, 1)   \
  CONV_WGMMA(type, T, 256, 64, 4, 2, 1, 1)    \
  CONV_WGMMA(type, T, 128, 64, 4, 2, 1, 2)
#define CONV_WGMMA_TILES_WIDE(type, T)        \
  CONV_WGMMA(type, T, 64, 256, 4, 1, 2, 1)    \
  CONV_WGMMA(type, T, 64, 128, 4, 1, 2, 2)
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
#undef CONV_WGMMA
#undef CONV_WGMMA_TILES
#undef CONV_WGMMA_TILES_WIDE
