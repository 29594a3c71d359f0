#include "engine/checkpoint_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

CheckpointRecord sample() {
  return {.step = 1200,
          .epoch = 1.5,
          .seed = std::numeric_limits<std::uint64_t>::max(),
          .batch_size = 8,
          .samples = 6400,
          .order = "shuffled",
          .loss_digest = 0xfedcba9876543210U,
          .epoch_loss_sum = 0.1 + 0.7,
          .epoch_loss_steps = 7,
          .best = BestScore{"top1", 0.1 + 0.2, 800},
          .epochs_since_best = 2,
          .scored_step = 1100,
          .best_scores = {{"loss", 0.25, 1100}, {"top1", 0.1 + 0.2, 800}},
          .fingerprints = {{"training.safetensors", 1}, {"weights.safetensors", ~0ULL}},
          .plan = R"({"version":1})",
          .notes = R"({"name":"mine"})",
          .program = "0.1.0"};
}

/// Returns the message about the sample record in which `old` has been replaced.
std::string refusal(const std::string& old, const std::string& with) {
  std::string text = to_json_text(sample());
  const std::size_t at = text.find(old);
  if (at == std::string::npos) return old + " is not in it";
  text.replace(at, old.size(), with);
  return thrown_by([&] { parse_checkpoint_record(text); });
}

std::string refusal(std::string_view text) {
  return thrown_by([&] { parse_checkpoint_record(text); });
}

TEST(CheckpointRecord, FullRecordRoundTrips) {
  EXPECT_EQ(parse_checkpoint_record(to_json_text(sample())), sample());
  EXPECT_EQ(to_json_text(parse_checkpoint_record(to_json_text(sample()))), to_json_text(sample()));
}

TEST(CheckpointRecord, MinimalRecordRoundTrips) {
  CheckpointRecord least;
  least.fingerprints = {{"weights.safetensors", 0}};
  EXPECT_EQ(parse_checkpoint_record(to_json_text(least)), least);
}

/// Such a record was written by versions that stored neither the losses of the epoch nor the best
/// score of each kind.
TEST(CheckpointRecord, RecordWithoutNewerKeysFailsOnlyTheFingerprintCheck) {
  std::string text = to_json_text(sample());
  const auto remove = [&](const std::string& key, const std::string& end) {
    const std::size_t at = text.find("  \"" + key + "\"");
    text.erase(at, text.find(end, at) + end.size() - at);
  };
  remove("epoch_loss_sum", ",\n");
  remove("epoch_loss_steps", ",\n");
  remove("best_scores", "  ],\n");
  // The fingerprint is checked last.
  EXPECT_EQ(refusal(text),
            "Refused: this checkpoint is damaged: its content has changed since it was written");
  EXPECT_EQ(CheckpointRecord().epoch_loss_steps, 0U);
}

TEST(CheckpointRecord, InfiniteLossSumIsReadAsNan) {
  CheckpointRecord record = sample();
  record.epoch_loss_sum = std::numeric_limits<double>::infinity();
  const CheckpointRecord read = parse_checkpoint_record(to_json_text(record));
  EXPECT_TRUE(std::isnan(read.epoch_loss_sum));
  EXPECT_EQ(read.epoch_loss_steps, 7U);
}

TEST(CheckpointRecord, ChangedValueFailsTheFingerprintCheck) {
  for (const auto& [old, with] : {std::pair{"1200", "1201"},
                                  {"fedcba9876543210", "fedcba9876543211"},
                                  {"\"top1\"", "\"top5\""},
                                  {"1.5", "1.25"},
                                  {"\"version\": 1\n  }", "\"version\": 2\n  }"}})
    EXPECT_THAT(refusal(old, with), HasSubstr("has changed since it was written")) << old;
  EXPECT_EQ(parse_checkpoint_record(to_json_text(sample()) + "\n "), sample());
}

TEST(CheckpointRecord, RecordWithoutFilesRoundTrips) {
  CheckpointRecord none = sample();
  none.fingerprints.clear();
  EXPECT_EQ(parse_checkpoint_record(to_json_text(none)), none);
}

TEST(CheckpointRecord, OtherDocumentsAndInvalidJsonAreRefused) {
  for (const char* text : {"[]", "1", "null", "{}", R"({"schema": 1})",
                           R"({"schema": "slipstream.run", "version": 2})"})
    EXPECT_THAT(refusal(text), StartsWith("Refused: this is not the record of a checkpoint"))
        << text;
  EXPECT_THAT(refusal(""), HasSubstr("must be JSON"));
  EXPECT_THAT(refusal("{\"schema\": "), HasSubstr("must be JSON"));
  EXPECT_THAT(refusal("\"step\": 1200", "\"seed\": 1200"), HasSubstr("twice"));
  EXPECT_THAT(refusal("\"0.1.0\"", "\"\xff\""), HasSubstr("must be JSON"));
}

TEST(CheckpointRecord, LaterVersionThrowsLaterCheckpointAndInvalidVersionIsRefused) {
  std::string text = to_json_text(sample());
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2, \"news\": []");
  EXPECT_THROW(parse_checkpoint_record(text), LaterCheckpoint);
  EXPECT_THAT(refusal(text),
              AllOf(HasSubstr("0.1.0"), HasSubstr("format 2"), HasSubstr("update the program")));
  EXPECT_THAT(refusal("\"version\": 1", "\"version\": 0"), HasSubstr("version is 0"));
  EXPECT_THAT(refusal("\"version\": 1", "\"version\": \"2\""), HasSubstr("version must be"));
  EXPECT_THAT(refusal("\"version\": 1,", ""), HasSubstr("version is missing"));
}

TEST(CheckpointRecord, CountsThatAreNotWholeNumbersAreRefused) {
  for (const auto& [key, value] : {std::pair{"step", "1200"},
                                   {"batch_size", "8"},
                                   {"samples", "6400"},
                                   {"epochs_since_best", "2"},
                                   {"seed", "18446744073709551615"}})
    for (const char* wrong : {"-1", "1.5", "\"1\"", "null", "[]", "18446744073709551616"})
      EXPECT_THAT(refusal("\"" + std::string(key) + "\": " + value,
                          "\"" + std::string(key) + "\": " + wrong),
                  HasSubstr(std::string(key) + " must be a whole number that is at least 0, not "))
          << wrong;
}

TEST(CheckpointRecord, DigestsWithoutSixteenHexDigitsAreRefused) {
  for (const char* wrong : {"\"fedcba987654321\"", "\"fedcba98765432100\"", "\"0xdcba9876543210\"",
                            "\"-edcba9876543210\"", "\"gedcba9876543210\"", "\"\"", "1", "{}"}) {
    EXPECT_THAT(refusal("\"fedcba9876543210\"", wrong),
                HasSubstr("loss_digest must be 16 hexadecimal digits"))
        << wrong;
    EXPECT_THAT(refusal("\"ffffffffffffffff\"", wrong),
                HasSubstr("fingerprints.weights.safetensors must be 16 hexadecimal digits"))
        << wrong;
  }
}

TEST(CheckpointRecord, MissingUnknownAndMistypedKeysAreReported) {
  EXPECT_THAT(refusal("\"step\": 1200,", "\"stepp\": 1200,"),
              AllOf(HasSubstr("step is missing"), HasSubstr("'stepp'")));
  EXPECT_THAT(refusal("\"epoch\": 1.5", "\"epoch\": true"), HasSubstr("epoch must be a number"));
  EXPECT_THAT(refusal("\"program\": \"0.1.0\"", "\"program\": 1"), HasSubstr("program must be"));
  EXPECT_THAT(refusal("\"metric\": \"top1\"", "\"metric\": 1"), HasSubstr("best.metric must be"));
  EXPECT_THAT(refusal("\"metric\": \"top1\",", ""), HasSubstr("best.metric is missing"));
  EXPECT_THAT(refusal("\"metric\"", "\"more\": 1, \"metric\""), HasSubstr("best.more"));
  EXPECT_THAT(refusal("\"step\": 800", "\"step\": -800"), HasSubstr("best.step must be"));
  EXPECT_THAT(refusal("\"best\": {", "\"best\": 1, \"bets\": {"),
              AllOf(HasSubstr("best must be an object"), HasSubstr("'bets'")));
  EXPECT_THAT(refusal("\"fingerprints\": {", "\"fingerprints\": [], \"more\": {"),
              HasSubstr("fingerprints must be an object"));
  EXPECT_THAT(refusal("\"fingerprints\"", "\"prints\""), HasSubstr("fingerprints is missing"));
}

TEST(CheckpointRecord, DeepNestingIsRefusedWithoutStackOverflow) {
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  EXPECT_THAT(refusal("\"step\": 1200", "\"step\": " + deep), StartsWith("Refused: "));
  EXPECT_THAT(refusal("\"plan\": {", "\"plan\": " + deep + ", \"plans\": {"),
              StartsWith("Refused: "));
}

}  // namespace
}  // namespace slipstream
