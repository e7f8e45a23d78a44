// conv_tiles.h: the shapes of the tensor-core kernels: CONV_MMA(type, T, BM, BN,
// BK, stages, warps along M, warps along N). tiles in cuda_conv.go lists the same.
#define CONV_TILES_16(type, T)              \
  CONV_MMA(type, T, 128, 128, 32, 4, 2, 2)  \
  CONV_MMA(type, T, 128, 128, 64, 3, 2, 4)  \
  CONV_MMA(type, T, 128, 256, 32, 3, 2, 4)  \
  CONV_MMA(type, T, 256, 64, 32, 4, 4, 1)   \
  CONV_MMA(type, T, 128, 64, 32, 4, 2, 2)   \
  CONV_MMA(type, T, 128, 64, 64, 3, 2, 2)   \
  CONV_MMA(type, T, 64, 64, 32, 4, 2, 2)
#if KD_TYPES & KD_FP16
#ifndef KD_TURING
CONV_TILES_16(fp16, f16)
#ifdef CONV_TILES_WIDE
CONV_MMA(fp16, f16, 64, 128, 32, 4, 2, 2)
#endif
#endif
// Two stages, for Turing, whose copies do not run ahead. The host has all.
#if defined(KD_TURING) || !defined(__CUDA__)
CONV_MMA(fp16, f16, 128, 128, 32, 2, 2, 4)
CONV_MMA(fp16, f16, 128, 64, 32, 2, 2, 2)
CONV_MMA(fp16, f16, 64, 64, 32, 2, 2, 2)
#endif
#endif
#if KD_TYPES & KD_BF16
CONV_TILES_16(bf16, bf16)
#ifdef CONV_TILES_WIDE
CONV_MMA(bf16, bf16, 64, 128, 32, 4, 2, 2)
#endif
#endif
#if KD_TYPES & KD_TF32
CONV_MMA(tf32, tf32, 128, 128, 16, 4, 2, 2)
CONV_MMA(tf32, tf32, 128, 64, 16, 4, 2, 2)
CONV_MMA(tf32, tf32, 64, 64, 16, 4, 2, 2)
#endif
#undef CONV_MMA
#undef CONV_TILES_16
