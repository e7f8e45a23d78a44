// conv_tiles_simt.h: the shapes of the CUDA-core kernels: CONV_SIMT(type, T, BM,
// BN, elements a load). simtTiles in cuda_conv.go lists the same.
#if KD_TYPES & KD_FP32
CONV_SIMT(fp32, float, 128, 128, 4)
CONV_SIMT(fp32, float, 128, 64, 4)
CONV_SIMT(fp32, float, 64, 64, 4)
CONV_SIMT(fp32, float, 64, 64, 1)
#endif
#if KD_TYPES & KD_FP16
CONV_SIMT(fp16, f16, 128, 64, 4)
CONV_SIMT(fp16, f16, 64, 64, 1)
#endif
#if KD_TYPES & KD_BF16
CONV_SIMT(bf16, bf16, 128, 64, 4)
CONV_SIMT(bf16, bf16, 64, 64, 1)
#endif
#undef CONV_SIMT
