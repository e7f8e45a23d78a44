// kernels.h: the sources of all kernels.
#pragma once
#include "../kd.h"
#include "../elementwise.cu"
#include "../optimizer.cu"
