#pragma once

// Includes what a training program needs: data sets, operations, the pipeline, the trainer and the
// command line. Programs that measure and diagnose a pipeline include slipstream/doctor/doctor.h
// too.

#include "slipstream/cli/cli.h"
#include "slipstream/cli/workload.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/datasets/disk_cache.h"
#include "slipstream/engine/checkpoint.h"
#include "slipstream/engine/evaluation.h"
#include "slipstream/engine/fork_join.h"
#include "slipstream/engine/trainer.h"
#include "slipstream/engine/weights.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/chain.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/pixel_op.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
