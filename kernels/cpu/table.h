// One set of kernels, named by TABLE_NAME.
#include "simd.h"
#include "gemm.h"
#include "winograd.h"
#include "stride2.h"
#include "norm.h"
#include "elementwise.h"

const struct kernels TABLE_NAME = {
	.lanes = LANES,
	.panel = PANEL,
	.gemm_nn = gemm_nn,
	.gemm_tn = gemm_tn,
	.pack = pack,
	.add_columns = add_columns,
	.moments = moments,
	.normalise = normalise,
	.norm_sums = norm_sums,
	.norm_back = norm_back,
	.widen = widen,
	.narrow = narrow,
	.add = add,
	.relu_back = relu_back,
	.update = update,
	.max_pool = max_pool,
	.max_pool_back = max_pool_back,
	.stack_frames = stack_frames,
	.stack_frames_back = stack_frames_back,
	.spread_mean = spread_mean,
	.stride1 = {wino_input, wino_input, wino_spread, wino_output, wino_output, wino_filter, wino_filter_back, wino_gather},
	.stride2 = {two_input, two_input_back, two_spread_dy, two_output, two_output_back, two_filter, two_filter_back, two_gather},
};
