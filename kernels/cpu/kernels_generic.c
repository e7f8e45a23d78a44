// For any processor: four lanes suit SSE and NEON.
#define LANES 4
#define ROWS 4
#define TABLE_NAME kernels_generic
#include "table.h"
