#include "core/trace.h"
#include "core/number_text.h"
#include "engine/kernel_trace.h"
#include "engine/run_hooks.h"
#include "training/input.h"
#include "training/trace_run.h"

namespace slipstream {
namespace {

TraceFacts make_trace_facts(const Trace& trace, const TraceOptions& options) {
  const Plan& plan = trace.run.plan;
  TraceFacts facts = {{"program", "slipstream"},
                      {"plan", plan.schedule.mode},
                      {"depth", std::to_string(plan.schedule.depth)},
                      {"input", options.input},
                      {"first step", std::to_string(trace.run.first_step)},
                      {"steps", std::to_string(trace.run.steps)},
                      {"clock", "the host's, monotonic"}};
  if (trace.recorder->clock_error_ns() > 0)
    facts.emplace_back("lanes", "CUDA events, on the host's clock to within " +
                                    std::to_string(trace.recorder->clock_error_ns()) + " ns");
  if (!trace.no_kernels.empty()) facts.emplace_back("kernels", trace.no_kernels);
  for (const TraceRow* row : trace.recorder->rows())
    if (row->dropped() > 0)
      facts.emplace_back("missing in " + row->name(), format_count(row->dropped(), "event"));
  return facts;
}

}  // namespace

Trace run_trace(Trainer& trainer, const Plan& plan, const TraceOptions& options) {
  if (options.steps == 0) throw Refused("a trace needs at least 1 step");
  RunOptions run;
  run.cut = parse_cut(options.input);
  run.stop = options.stop;
  run.digest = false;
  run.check_loss = false;

  Trace trace;
  TraceRecorder::Options recorded;
  recorded.events_per_row = options.events_per_row;
  recorded.first_batch = trainer.position() + (run.cut ? 0 : options.warm_up);
  trace.recorder = std::make_shared<TraceRecorder>(recorded);

  KernelTrace kernels(trainer.context());
  // The warm-up run records too, because a loader is reused only if its options, including the
  // recorder, are the same. With a cut, batches are numbered anew, so the warm-up would be recorded
  // as traced batches.
  RunHooks warm_up, traced;
  if (!run.cut) warm_up.trace = trace.recorder;
  run.steps = options.warm_up;
  if (options.warm_up > 0) run_with(trainer, plan, run, warm_up);

  traced.trace = trace.recorder;
  run.steps = options.steps;
  run.progress = options.progress;
  kernels.start();
  trace.run = run_with(trainer, plan, run, traced);
  trace.recorder->stop();
  kernels.stop(*trace.recorder);
  trace.no_kernels = kernels.problem();
  trace.facts = make_trace_facts(trace, options);
  return trace;
}

}  // namespace slipstream
