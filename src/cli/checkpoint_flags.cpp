#include "cli/checkpoint_flags.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "core/environment.h"
#include "core/files.h"
#include "core/number_text.h"
#include "slipstream/engine/weights.h"
#include "training/resume.h"

namespace slipstream {
namespace {

void print_names(const std::string& what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::cout << "weights: " << format_count(names.size(), "tensor") << " " << what << ", such as "
            << printable_name(names.front()) << "\n";
}

}  // namespace

void CheckpointFlags::add_to(CLI::App& verb) {
  verb.add_option("--weights", weights,
                  "Starts from the weights in this .safetensors file or checkpoint")
      ->group(kTrainingGroup);
  verb.add_flag("--weights-partial", weights_partial,
                "Loads only the weights whose names and shapes match, such as all but the head for "
                "other classes")
      ->group(kTrainingGroup);
  verb.add_option(
          "--checkpoint", checkpoint,
          "Folder for checkpoints, saved at the end, on an interrupt and after each evaluation")
      ->group(kCheckpointGroup);
  verb.add_option("--save-every", save_every, "Also saves a checkpoint every N steps")
      ->check(at_least(1))
      ->group(kCheckpointGroup);
  verb.add_option("--keep-last", keep_last,
                  "Number of latest checkpoints to keep, in addition to the best one (default: " +
                      std::to_string(CheckpointOptions().keep_last) + ")")
      ->check(at_least(1))
      ->group(kCheckpointGroup);
  verb.add_option("--resume", resume,
                  "Resumes from a checkpoint: its path, or auto for the latest in --checkpoint, if "
                  "there is one")
      ->group(kCheckpointGroup);
}

void CheckpointFlags::check() const {
  std::vector<std::string> problems;
  const bool has_folder = !checkpoint.empty();
  if (save_every && !has_folder) problems.emplace_back("--save-every needs --checkpoint DIR");
  if (keep_last && !has_folder) problems.emplace_back("--keep-last needs --checkpoint DIR");
  if (!weights.empty() && !resume.empty() && resume != kLatest)
    problems.emplace_back("--weights has no effect with --resume " + resume +
                          ", which has weights; leave it out");
  if (resume == kLatest && !has_folder)
    problems.emplace_back("--resume auto needs --checkpoint DIR");
  if (weights_partial && weights.empty())
    problems.emplace_back("--weights-partial has no effect without --weights; leave it out");
  refuse(problems);
}

void CheckpointFlags::load_weights_into(const Pipeline& pipeline) const {
  if (weights.empty()) return;
  const LoadedWeights loaded = loaded_into(pipeline);
  print_names("of the model not in the file", loaded.missing);
  print_names("of the file not in the model", loaded.unexpected);
  print_names("left out because of another shape", loaded.other_shape);
  print_names("left out because of another dtype", loaded.other_dtype);
  print_names("converted to the model's dtype", loaded.converted);
}

LoadedWeights CheckpointFlags::loaded_into(const Pipeline& pipeline) const try {
  return load_weights(named_tensors(*pipeline.train_step()), weights, {.partial = weights_partial});
} catch (const Refused& refused) {
  const std::string why = refused.what();
  const bool differs = why.find("another model") != std::string::npos;
  throw Refused(why + (differs ? hint + "\n--weights-partial loads those that fit" : ""));
}

std::unique_ptr<Checkpoints> CheckpointFlags::open(Trainer& trainer, std::uint64_t steps,
                                                   const std::string& notes) const {
  if (checkpoint.empty()) return nullptr;
  CheckpointOptions options;
  options.folder = checkpoint;
  options.save_every = save_every.value_or(0);
  if (options.save_every >= steps) options.save_every = 0;  // the last step is saved anyway
  options.keep_last = keep_last.value_or(options.keep_last);
  options.notes = notes;
  options.program = std::string(slipstream_version());
  return std::make_unique<Checkpoints>(options, trainer);
}

std::optional<LoadedCheckpoint> CheckpointFlags::load(Trainer& trainer,
                                                      Checkpoints* checkpoints) const {
  std::optional<LoadedCheckpoint> loaded =
      load_resumed(trainer, checkpoints, checkpoint, resume, "--resume auto");
  if (loaded) {
    for (const std::string& damaged : loaded->passed_over)
      std::cerr << "warning: passed over a damaged checkpoint: " << printable(damaged) << "\n";
    std::cout << "continues from step " << loaded->step << " (" << loaded->path.string() << ")\n";
  }
  return loaded;
}

}  // namespace slipstream
