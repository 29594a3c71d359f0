#include "engine/checkpoint_record.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "core/fingerprint.h"
#include "core/json_fields.h"

namespace slipstream {
namespace {

using json::Json;
using json::Problems;

constexpr const char* kSchema = "slipstream.checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr const char* kWhat = "this checkpoint";
constexpr const char* kOwnFingerprint = "fingerprint";

void take_count(json::Fields& fields, const std::string& key, std::uint64_t& out) {
  const Json* value = fields.find_required(key);
  if (value == nullptr) return;
  if (value->is_number_unsigned())
    out = value->get<std::uint64_t>();
  else
    fields.must_be(key, "a whole number that is at least 0", *value);
}

void take_number(json::Fields& fields, const std::string& key, double& out) {
  if (const Json* value = fields.find_required(key))
    json::take(*value, fields.full_path(key), out, fields.problems());
}

void take_text(json::Fields& fields, const std::string& key, std::string& out) {
  if (const Json* value = fields.find_required(key))
    json::take(*value, fields.full_path(key), out, fields.problems());
}

void take_hex(const Json& value, const std::string& path, std::uint64_t& out, Problems& problems) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out, 16);
  if (text.size() != 16 || error != std::errc() || at != end)
    json::must_be(path, "16 hexadecimal digits", value, problems);
}

BestScore best_score(const Json& value, const std::string& path, Problems& problems) {
  json::Fields fields(value, path, kWhat, problems);
  BestScore found;
  take_text(fields, "metric", found.metric);
  take_number(fields, "value", found.value);
  take_count(fields, "step", found.step);
  fields.refuse_others();
  return found;
}

Json to_json_text(const BestScore& best) {
  return {{"metric", best.metric}, {"value", best.value}, {"step", best.step}};
}

/// JSON has no NaN, so null means that the sum is not finite.
void take_epoch_losses(json::Fields& fields, CheckpointRecord& record) {
  if (fields.find("epoch_loss_steps") != nullptr)
    take_count(fields, "epoch_loss_steps", record.epoch_loss_steps);
  const Json* sum = fields.find("epoch_loss_sum");
  if (sum != nullptr && sum->is_null())
    record.epoch_loss_sum = std::numeric_limits<double>::quiet_NaN();
  else if (sum != nullptr)
    take_number(fields, "epoch_loss_sum", record.epoch_loss_sum);
}

void take_best_scores(json::Fields& fields, std::vector<BestScore>& scores) {
  const Json* all = fields.find("best_scores");
  if (all == nullptr) return;
  if (!all->is_array()) return fields.must_be("best_scores", "a list", *all);
  for (std::size_t i = 0; i < all->size(); ++i)
    scores.push_back(
        best_score((*all)[i], "best_scores[" + std::to_string(i) + "]", fields.problems()));
}

void refuse_foreign(const Json& document) {
  const auto text = [&](const char* key) {
    const auto found = document.is_object() ? document.find(key) : document.end();
    return found != document.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (!document.is_object() || text("schema") != kSchema)
    throw Refused("this is not the record of a checkpoint (its \"schema\" is not " +
                  std::string(kSchema) + ")");
  const auto version = document.find("version");
  if (version != document.end() && version->is_number_unsigned() &&
      version->get<std::uint64_t>() > kVersion)
    throw LaterCheckpoint("a later version of the program wrote this checkpoint (" +
                          text("program") + ", format " + version->dump() +
                          "; this one reads format " + std::to_string(kVersion) +
                          "): update the program");
}

/// Returns the fingerprint of the document without its own fingerprint.
std::string json_fingerprint(Json document) {
  document.erase(kOwnFingerprint);
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  return to_hex(fingerprint(text.data(), text.size()));
}

void check_fingerprint(const Json& document) {
  const auto own = document.find(kOwnFingerprint);
  if (own == document.end() || *own != json_fingerprint(document))
    throw Refused(std::string(kWhat) + " is damaged: its content has changed since it was written");
}

}  // namespace

std::string to_json_text(const CheckpointRecord& record) {
  Json document = {{"schema", kSchema},
                   {"version", kVersion},
                   {"program", record.program},
                   {"step", record.step},
                   {"epoch", record.epoch},
                   {"seed", record.seed},
                   {"batch_size", record.batch_size},
                   {"samples", record.samples},
                   {"accumulate", record.accumulate},
                   {"data", to_hex(record.data)},
                   {"order", record.order},
                   {"loss_digest", to_hex(record.loss_digest)}};
  if (std::isfinite(record.epoch_loss_sum))
    document["epoch_loss_sum"] = record.epoch_loss_sum;
  else
    document["epoch_loss_sum"] = nullptr;
  document["epoch_loss_steps"] = record.epoch_loss_steps;
  if (record.best) document["best"] = to_json_text(*record.best);
  for (const BestScore& best : record.best_scores)
    document["best_scores"].push_back(to_json_text(best));
  document["epochs_since_best"] = record.epochs_since_best;
  document["scored_step"] = record.scored_step;
  document["fingerprints"] = Json::object();
  for (const auto& [file, fingerprint] : record.fingerprints)
    document["fingerprints"][file] = to_hex(fingerprint);
  if (!record.plan.empty()) document["plan"] = json::parsed(record.plan, "the plan");
  if (!record.notes.empty()) document["notes"] = json::parsed(record.notes, "the notes");
  document[kOwnFingerprint] = json_fingerprint(document);
  return document.dump(2) + "\n";
}

CheckpointRecord parse_checkpoint_record(std::string_view text) {
  const Json document = json::parsed(text, kWhat);
  refuse_foreign(document);
  Problems problems;
  json::Fields fields(document, "", kWhat, problems);
  CheckpointRecord record;
  // refuse_others() refuses each key that was not requested.
  static_cast<void>(fields.find("schema"));
  fields.check_version(fields.find_required("version"), kVersion);
  take_text(fields, "program", record.program);
  take_count(fields, "step", record.step);
  take_number(fields, "epoch", record.epoch);
  take_count(fields, "seed", record.seed);
  take_count(fields, "batch_size", record.batch_size);
  take_count(fields, "samples", record.samples);
  take_count(fields, "accumulate", record.accumulate);
  if (const Json* data = fields.find_required("data"))
    take_hex(*data, "data", record.data, problems);
  take_text(fields, "order", record.order);
  take_count(fields, "epochs_since_best", record.epochs_since_best);
  take_count(fields, "scored_step", record.scored_step);
  if (const Json* digest = fields.find_required("loss_digest"))
    take_hex(*digest, "loss_digest", record.loss_digest, problems);
  take_epoch_losses(fields, record);
  if (const Json* best = fields.find("best")) record.best = best_score(*best, "best", problems);
  take_best_scores(fields, record.best_scores);
  if (const Json* all = fields.find_required("fingerprints")) {
    if (!all->is_object()) fields.must_be("fingerprints", "an object", *all);
    for (const auto& [file, value] : all->items())
      if (all->is_object())
        take_hex(value, "fingerprints." + file, record.fingerprints[file], problems);
  }
  if (const Json* plan = fields.find("plan")) record.plan = plan->dump();
  if (const Json* notes = fields.find("notes")) record.notes = notes->dump();
  static_cast<void>(fields.find(kOwnFingerprint));
  fields.refuse_others();
  json::refuse_document(kWhat, problems);
  check_fingerprint(document);
  return record;
}

}  // namespace slipstream
