#pragma once

// Includes what a training program needs: data sets, operations, the pipeline, the trainer and the
// command line. Programs that measure and diagnose a pipeline include slipstream/doctor/doctor.h
// too.

#include "slipstream/cli/cli.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/datasets/disk_cache.h"
#include "slipstream/ops/blur.h"
#include "slipstream/ops/chain.h"
#include "slipstream/ops/color.h"
#include "slipstream/ops/masking.h"
#include "slipstream/ops/pixel_op.h"
#include "slipstream/ops/resize.h"
#include "slipstream/ops/transforms.h"
#include "slipstream/ops/warp.h"
#include "slipstream/run/checkpoint.h"
#include "slipstream/run/evaluation.h"
#include "slipstream/run/fork_join.h"
#include "slipstream/run/trainer.h"
#include "slipstream/train/weights.h"
#include "slipstream/workloads/workload.h"
