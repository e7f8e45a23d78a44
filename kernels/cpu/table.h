// One set of kernels, named by TABLE_NAME.
#include "simd.h"
#include "gemm.h"
#include "narrow.h"
#include "winograd.h"
#include "stride2.h"
#include "elementwise.h"

#define REAL float
#define NAME(f) f
#define GET load_n
#define PUT put_n
#include "norm.h"
#include "tensors.h"
#undef REAL
#undef NAME
#undef GET
#undef PUT
#define REAL half
#define NAME(f) half_##f
#define GET load_half_n
#define PUT put_half_n
#include "norm.h"
#include "tensors.h"

const struct kernels TABLE_NAME = {
	.lanes = LANES,
	.rows = ROWS,
	.strip = STRIP,
	.panel = PANEL,
	.gemm_nn = gemm_nn,
	.gemm_tn = gemm_tn,
	.gemm_rows = gemm_rows,
	.gemm_strips = gemm_strips,
	.pack_strips = pack_strips,
	.pack = pack,
	.narrow_forward = narrow_forward,
	.narrow_weight = narrow_weight,
	.tensors = {add_columns, moments, normalise, norm_sums, norm_back, add, relu_back, max_pool, max_pool_back, spread_mean, stack_frames_back},
	.half_tensors = {half_add_columns, half_moments, half_normalise, half_norm_sums, half_norm_back, half_add, half_relu_back, half_max_pool, half_max_pool_back,
	                 half_spread_mean, half_stack_frames_back},
	.widen = widen,
	.narrow = narrow,
	.update = update,
	.pad_channels = pad_channels,
	.stack_frames = stack_frames,
	.stride1 = {wino_input, wino_input, wino_spread, wino_output, wino_output, wino_filter, wino_filter_back, wino_gather},
	.stride2 = {two_input, two_input_back, two_spread_dy, two_output, two_output_back, two_filter, two_filter_back, two_gather},
};
