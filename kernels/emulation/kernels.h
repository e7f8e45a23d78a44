// kernels.h: the sources of all kernels.
#pragma once
#include "../kd.h"
#include "../batchnorm.cu"
#include "../conv_backward_data.cu"
#include "../conv_backward_weight.cu"
#include "../conv_forward.cu"
#include "../elementwise.cu"
#include "../linear.cu"
#include "../optimizer.cu"
#include "../pool.cu"
#include "../reduce.cu"
#include "../xent.cu"
