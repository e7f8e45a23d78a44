// One set of kernels, named by TABLE_NAME.
#include "simd.h"
#include "gemm.h"
#include "winograd.h"
#include "stride2.h"
#include "elementwise.h"

#define REAL float
#define NAME(f) f
#define GET load_n
#define PUT put_n
#include "norm.h"
#undef REAL
#undef NAME
#undef GET
#undef PUT
#define REAL half
#define NAME(f) half_##f
#define GET load_half_n
#define PUT put_half_n
#include "norm.h"

const struct kernels TABLE_NAME = {
	.lanes = LANES,
	.rows = ROWS,
	.strip = STRIP,
	.panel = PANEL,
	.gemm_nn = gemm_nn,
	.gemm_tn = gemm_tn,
	.gemm_strips = gemm_strips,
	.pack_strips = pack_strips,
	.pack = pack,
	.add_columns = add_columns,
	.norms = {moments, normalise, norm_sums, norm_back},
	.half_norms = {half_moments, half_normalise, half_norm_sums, half_norm_back},
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
