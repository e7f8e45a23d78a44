// One set of kernels, named by TABLE_NAME.
#include "simd.h"
#include "gemm.h"
#include "winograd.h"

const struct kernels TABLE_NAME = {
	.lanes = LANES,
	.panel = PANEL,
	.gemm_nn = gemm_nn,
	.gemm_tn = gemm_tn,
	.pack = pack,
	.wino_input = wino_input,
	.wino_output = wino_output,
	.wino_spread = wino_spread,
	.wino_filter = wino_filter,
	.wino_filter_back = wino_filter_back,
	.wino_gather = wino_gather,
};
