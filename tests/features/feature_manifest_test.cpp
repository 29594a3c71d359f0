#include "features/feature_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/environment.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kFields = R"([{"name": "0", "dtype": "bfloat16", "shape": [3, 5]},
                                    {"name": "label", "dtype": "int64", "shape": []}])";

TEST(FeatureManifestTest, ParsesWhatItWrites) {
  const FeatureManifest made =
      make_feature_manifest(R"({"weights": "ab", "versions": 4})", kFields);
  const FeatureManifest parsed = parse_feature_manifest(made.to_json());
  EXPECT_EQ(parsed.key, R"({"weights":"ab","versions":4})");
  EXPECT_EQ(parsed.fields, made.fields);
  EXPECT_EQ(parsed.library, slipstream_version());
  EXPECT_EQ(parsed.created, made.created);
  EXPECT_EQ(parsed.record_bytes(), 38U);
  EXPECT_EQ(parsed.folder_name(), made.folder_name());
  EXPECT_EQ(parsed.seed(), made.seed());
}

TEST(FeatureManifestTest, SeedDependsOnKeyAndFields) {
  const auto seed = [](const char* key, const char* fields) {
    return make_feature_manifest(key, fields).seed();
  };
  EXPECT_NE(seed("1", kFields), seed("2", kFields));
  EXPECT_NE(seed("1", R"([{"name": "a", "dtype": "int32", "shape": [2]}])"),
            seed("1", R"([{"name": "a", "dtype": "int64", "shape": [1]}])"));
}

TEST(FeatureManifestTest, KeyThatIsNoJsonIsRefused) {
  for (const char* key : {"", "{", "resnet50", "{\"a\": 1, \"a\": 2}"})
    EXPECT_THAT(thrown_by([&] { make_feature_manifest(key, kFields); }), StartsWith("Refused: "));
  // The key is one level deeper in the manifest.
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  EXPECT_THAT(thrown_by([&] { make_feature_manifest(deep, kFields); }),
              AllOf(StartsWith("Refused: "), HasSubstr("nested too deeply")));
}

TEST(FeatureManifestTest, UnusableFieldsAreRefusedTogether) {
  const std::string refusal = thrown_by([] {
    parse_feature_fields(R"([{"name": "", "dtype": "float32", "shape": [1]},
                             {"name": "b", "dtype": "complex64", "shape": [-1]},
                             {"name": "b", "dtype": "uint8", "shape": 3, "order": 1}])");
  });
  EXPECT_THAT(refusal,
              AllOf(StartsWith("Refused: "), HasSubstr("fields[0].name must not be empty"),
                    HasSubstr("fields[1].dtype must be PyTorch's name of a type"),
                    HasSubstr("fields[1].shape must be a list of numbers that are not negative"),
                    HasSubstr("fields[2].name is that of an earlier field"),
                    HasSubstr("fields[2].shape must be a list"), HasSubstr("'order'")));
}

TEST(FeatureManifestTest, RecordsWithoutValuesOrTooLargeAreRefused) {
  for (const char* fields :
       {"[]", R"([{"name": "a", "dtype": "uint8", "shape": [0]}])",
        R"([{"name": "a", "dtype": "float64", "shape": [1000000, 1000000]}])",
        R"([{"name": "a", "dtype": "float64", "shape": [4611686018427387904, 4]}])"})
    EXPECT_THAT(thrown_by([&] { parse_feature_fields(fields); }), StartsWith("Refused: "))
        << fields;
}

TEST(FeatureManifestTest, OtherFormatIsTheOnlyProblem) {
  const std::string refusal =
      thrown_by([] { parse_feature_manifest(R"({"slipstream_features": 2, "codec": "x"})"); });
  EXPECT_THAT(refusal, HasSubstr("its format is version 2; this library reads version 1"));
  EXPECT_THAT(refusal, testing::Not(HasSubstr("codec")));
}

}  // namespace
}  // namespace slipstream
