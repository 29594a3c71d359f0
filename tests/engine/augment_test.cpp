#include <gmock/gmock.h>

#include "engine/engine.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/engine/pipeline.h"
#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/containers.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/made_set.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

class AugmentRunTest : public EngineTest {
 protected:
  static constexpr std::uint64_t kSteps = 12;
  inline static const Lanes kAugmentLane = {{"copy"}, {"augment"}, {"encode"}, {"train"}};

  static Tiny augmented() {
    Tiny tiny;
    tiny.transforms = {{"flip", RandomHorizontalFlip{0.5}},
                       {"crop", RandomCrop{8, 2}},
                       {"float", ToDtype{.scale = true}},
                       {"turn", RandomRotation{{-30, 30}}},
                       {"blur", GaussianBlur{3, {0.1, 2}}},
                       {"normalize", Normalize{{0.4, 0.5, 0.6}, {0.2, 0.3, 0.4}}}};
    return tiny;
  }

  static Plan plan_with(const Lanes& lanes, const std::string& on_device,
                        Driver driver = Driver::threaded) {
    Plan plan = build_plan(lanes, driver, lanes.size() + 1, exact());
    plan.schedule.loader.on_device = on_device;
    plan.schedule.loader.num_workers = 2;
    return plan;
  }
};

TEST_F(AugmentRunTest, DeviceTransformsGiveSameDigestAsLoaderTransforms) {
  const std::uint64_t on_the_loader = fresh_run(augmented(), serial_plan(), steps(kSteps)).digest;
  EXPECT_NE(fresh_run({}, serial_plan(), steps(kSteps)).digest, on_the_loader);
  for (const std::string from : {"flip", "float", "normalize"})
    for (const Lanes& lanes : {kAugmentLane, Lanes{{"copy"}, {"augment", "encode"}, {"train"}},
                               Lanes{{"copy", "augment", "encode", "train"}}})
      for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
        const Plan plan = plan_with(lanes, from, driver);
        EXPECT_EQ(fresh_run(augmented(), plan, steps(kSteps), delayed(400, 5)).digest,
                  on_the_loader)
            << describe(plan) << ", from " << from;
      }
}

TEST_F(AugmentRunTest, RandomlyAppliedTransformsGiveSameDigestOnLoaderAndDevice) {
  Tiny tiny = augmented();
  tiny.transforms = {
      {"maybe", RandomApply{{{"jitter", ColorJitter{.contrast = {0.5, 1.5}}},
                             {"turn", RandomRotation{{-30, 30}, Interpolation::bilinear}}}}},
      {"one", RandomChoice{{{"equalize", RandomEqualize{1}}, {"flip", RandomVerticalFlip{1}}}}},
      {"stretch", RandomAutocontrast{}},
      {"float", ToDtype{.scale = true}},
      {"sharpen", RandomAdjustSharpness{3}},
      {"normalize", Normalize{{0.4, 0.5, 0.6}, {0.2, 0.3, 0.4}}}};
  const std::uint64_t on_the_loader = fresh_run(tiny, serial_plan(), steps(kSteps)).digest;
  EXPECT_EQ(first_on_device(tiny_pipeline(tiny)), "maybe");
  for (const std::string from : {"maybe", "one", "stretch", "sharpen"})
    EXPECT_EQ(fresh_run(tiny, plan_with(kAugmentLane, from), steps(kSteps), delayed(400, 5)).digest,
              on_the_loader)
        << from;
}

/// Scenes with one box each.
std::shared_ptr<const Dataset> boxed_scenes() {
  const auto scenes = synthetic_segmentation({.samples = 64, .size = 8, .classes = 5});
  std::vector<FieldSpec> fields = scenes->fields();
  fields.push_back({"boxes", FieldKind::boxes, DType::float32, {1, 4}, 0});
  return made_set(scenes->size(), fields, [scenes](std::size_t index, Sample& out) {
    Sample scene;
    scene.fields.resize(out.fields.size() - 1);
    scenes->read(index, scene);
    std::copy(scene.fields.begin(), scene.fields.end(), out.fields.begin());
    const float at = static_cast<float>(index % 3);
    const float box[] = {at, 1, 4 + at, 6};
    std::copy_n(box, 4, out.fields.back().array.reset(DType::float32, {1, 4}).as<float>());
  });
}

TEST_F(AugmentRunTest, BoxesGiveSameDigestWithTransformsOnLoaderOrDevice) {
  Tiny tiny = augmented();
  tiny.dataset = boxed_scenes();
  tiny.transforms.insert(tiny.transforms.begin() + 4,
                         {"maybe", RandomApply{{{"down", RandomVerticalFlip{}},
                                                {"more", RandomRotation{{-30, 30}}}}}});
  tiny.loss = [](const at::Tensor& output, const Batch& batch) {
    return output.to(at::kFloat).mean() * batch.at("boxes").sum();
  };
  const std::uint64_t on_the_loader = fresh_run(tiny, serial_plan(), steps(kSteps)).digest;
  for (const std::string from : {"flip", "turn", "maybe", "normalize"})
    EXPECT_EQ(fresh_run(tiny, plan_with(kAugmentLane, from), steps(kSteps), delayed(400, 5)).digest,
              on_the_loader)
        << from;
  tiny.transforms.erase(tiny.transforms.begin());
  EXPECT_NE(fresh_run(tiny, serial_plan(), steps(kSteps)).digest, on_the_loader);
}

/// Pictures from 5 x 20 to 20 x 5 pixels, with masks.
std::shared_ptr<MadeSet> variable_size_images() {
  return made_set(48, {image_field(), mask_field("label", 5)}, [](std::size_t index, Sample& out) {
    const auto height = static_cast<std::int64_t>(5 + index % 16);
    const std::int64_t width = 25 - height;
    const MutableArray image = out.fields[0].array.reset(DType::uint8, {height, width, 3});
    const MutableArray mask = out.fields[1].array.reset(DType::uint8, {height, width});
    for (std::size_t i = 0; i < image.bytes(); ++i)
      image.data[i] = static_cast<std::byte>((i * (7 + index)) % 251);
    for (std::size_t i = 0; i < mask.bytes(); ++i)
      mask.data[i] = static_cast<std::byte>((i / 3 + index) % 5);
  });
}

TEST_F(AugmentRunTest, VariableSizeImagesGiveSameDigestOnLoaderAndDevice) {
  for (const AnyOp& first :
       {AnyOp(RandomResizedCrop{8}), AnyOp(Resize{{8, 8}}),
        AnyOp(RandomResizedCrop{.size = 8, .antialias = false}), AnyOp(RandomCrop{4})}) {
    Tiny tiny = augmented();
    tiny.dataset = variable_size_images();
    tiny.transforms[0] = {"first", first};
    tiny.transforms[1] = {"large", Resize{{8, 8}}};
    const std::uint64_t on_the_loader = fresh_run(tiny, serial_plan(), steps(kSteps)).digest;
    for (const std::string from : {"first", "large"}) {
      Plan plan = plan_with(kAugmentLane, from);
      EXPECT_EQ(fresh_run(tiny, plan, steps(kSteps), delayed(400, 5)).digest, on_the_loader)
          << first.name();
      plan.schedule.loader.wire = {{"label", Wire::bits}};
      EXPECT_EQ(fresh_run(tiny, plan, steps(kSteps), delayed(400, 5)).digest, on_the_loader)
          << first.name();
    }
  }
}

TEST_F(AugmentRunTest, FirstOnDeviceSelectsRandomResizedCropButSkipsResizeAndRandomCrop) {
  Tiny tiny = augmented();
  tiny.dataset = variable_size_images();
  tiny.transforms[0] = {"first", RandomResizedCrop{8}};
  EXPECT_EQ(first_on_device(tiny_pipeline(tiny)), "first");
  for (const AnyOp& left : {AnyOp(Resize{{8, 8}}), AnyOp(RandomCrop{4})}) {
    tiny.transforms[0] = {"first", left};
    EXPECT_EQ(first_on_device(tiny_pipeline(tiny)), "crop") << left.name();
    EXPECT_EQ(first_worth_doing_on_device(tiny_pipeline(tiny)), "crop") << left.name();
  }
  tiny.transforms = {{"first", Resize{{8, 8}}}};
  EXPECT_EQ(first_on_device(tiny_pipeline(tiny)), "first") << "it is the only transform";
  EXPECT_EQ(first_worth_doing_on_device(tiny_pipeline(tiny)), "");
}

TEST_F(AugmentRunTest, JpegWireFormatExcludesCropFromDeviceTransforms) {
  const auto files = variable_size_images();
  files->decodes_default = true;
  Tiny tiny = augmented();
  tiny.dataset = files;
  tiny.transforms = {{"first", RandomResizedCrop{8}}, {"float", ToDtype{.scale = true}}};
  EXPECT_EQ(first_on_device(tiny_pipeline(tiny), {{"image", Wire::jpeg}}), "float");
}

TEST_F(AugmentRunTest, CachedBatchesGiveSerialDigestInPipelinedPlan) {
  RunOptions options = steps(kSteps);
  options.digest = true;
  for (const std::string after : {"collate", "copy", "augment"}) {
    options.cut = Cut{after, 3};
    const std::uint64_t serial =
        fresh_run(augmented(), plan_with({{"copy", "augment", "encode", "train"}}, "flip"), options)
            .digest;
    EXPECT_EQ(fresh_run(augmented(), plan_with(kAugmentLane, "flip"), options).digest, serial)
        << after;
  }
}

TEST_F(AugmentRunTest, FirstOnDeviceReturnsFirstSupportedTransformOrThrows) {
  EXPECT_EQ(first_on_device(tiny_pipeline(augmented())), "flip");
  EXPECT_THAT(thrown_by([] { first_on_device(tiny_pipeline({})); }),
              HasSubstr("the device can apply none of the transforms"));
}

TEST_F(AugmentRunTest, LoaderOptionsMatchThePlan) {
  const Pipeline pipeline = tiny_pipeline(augmented());
  Plan plan = plan_with(kAugmentLane, "float");
  LoaderPlan& loader = plan.schedule.loader;
  loader.prefetch_batches = 7;
  loader.read_ahead.reads = 3;
  loader.cache = CacheOptions{"decode", 1 << 20};
  loader.wire = {{"label", Wire::bits}};
  plan.numerics.scaled_decoding = true;
  const DataLoaderOptions options = pipeline.loader_options(plan);
  EXPECT_EQ(options.num_workers, 2U);
  EXPECT_EQ(options.prefetch_batches, 7U);
  EXPECT_EQ(options.read_ahead.reads, 3U);
  EXPECT_EQ(options.cache, loader.cache);
  EXPECT_EQ(options.wire, loader.wire);
  EXPECT_EQ(options.on_device, pipeline.transforms().size() - 2);
  EXPECT_TRUE(options.decode.scaled);
  EXPECT_EQ(options.batch_size, pipeline.options().batch_size);
  loader.on_device = "flop";
  EXPECT_THAT(thrown_by([&] { pipeline.loader_options(plan); }), HasSubstr("flop"));
}

TEST_F(AugmentRunTest, InvalidAugmentPlansAreRefused) {
  EXPECT_THAT(
      thrown_by([&] { fresh_run(augmented(), plan_with(kAugmentLane, "flop"), steps(1)); }),
      testing::AllOf(testing::StartsWith("Refused: "), HasSubstr("unknown transform 'flop'")));
  EXPECT_THAT(thrown_by([&] { fresh_run(augmented(), plan_with(kThreeLanes, "flip"), steps(1)); }),
              HasSubstr("step 'augment' is missing"));
  EXPECT_THAT(thrown_by([&] { fresh_run(augmented(), plan_with(kAugmentLane, ""), steps(1)); }),
              HasSubstr("unknown step 'augment'"));
  Tiny named = augmented();
  named.extra = {{"augment", [](Batch&) {}}};
  EXPECT_THAT(thrown_by([&] { fresh_run(named, plan_with(kAugmentLane, "flip"), steps(1)); }),
              HasSubstr("a stage is called 'augment'"));
}

}  // namespace
}  // namespace slipstream::test
