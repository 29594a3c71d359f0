#include <gmock/gmock.h>

#include <algorithm>

#include "codecs/jpeg_engine.h"
#include "core/packed_field.h"
#include "loader/jpeg_wire_fixture.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/image_records.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Colors = JpegKind::Colors;

/// Compares `batches` batches of new loaders in this way.
std::vector<std::uint64_t> compare(const std::shared_ptr<const Dataset>& dataset,
                                   const Chain& chain, const DataLoaderOptions& options,
                                   std::size_t batches) {
  DataLoader packed(dataset, chain, options);
  DataLoader expected(dataset, chain, plain());
  std::vector<std::uint64_t> traveled;
  for (std::size_t i = 0; i < batches; ++i) {
    const HostBatch batch = packed.next();
    const HostBatch as_usual = expected.next();
    for (const std::uint64_t sample : slipstream::compare(packed, batch, expected, as_usual))
      traveled.push_back(sample);
    packed.release(batch, nullptr);
    expected.release(as_usual, nullptr);
  }
  return traveled;
}

std::vector<Chain> wire_chains() {
  return {
      {{"resize", Resize{{24, 32}}}},
      {{"crop", CenterCrop{{20, 18}}}, {"flip", RandomHorizontalFlip{}}},
      {{"crop", RandomCrop{{31, 20}}}, {"down", RandomVerticalFlip{}}},
      {{"crop", RandomResizedCrop{{16, 24}}},
       {"flip", RandomHorizontalFlip{}},
       {"again", RandomHorizontalFlip{}},
       {"down", RandomVerticalFlip{}}},
  };
}

TEST(JpegWire, DecodedFilesEqualPlainWirePixels) {
  const auto set = jpeg_set(20);
  for (const Chain& chain : wire_chains()) {
    for (const unsigned workers : {1U, 3U}) {
      EXPECT_EQ(compare(set, chain, as_files(workers), 12).size(), 60U) << chain[0].name;
    }
  }
}

TEST(JpegWire, ImagesSmallerThanACenterCropAreDecodedByWorkers) {
  const auto set = jpeg_set(20);
  EXPECT_TRUE(compare(set, {{"crop", CenterCrop{{2000, 18}}}}, as_files(1), 12).empty());
}

TEST(JpegWire, UnsupportedFilesAreDecodedByWorkers) {
  const auto set = jpeg_set(7, {2, 5});
  set->add(image_record("exif_6.jpg").file);
  set->add(image_record("cmyk.jpg").file);
  set->add(jpeg_set(1)->files[0]);
  const Chain chain = {{"crop", RandomResizedCrop{{16, 24}}}};
  EXPECT_THAT(compare(set, chain, as_files(2), 2), testing::UnorderedElementsAre(0, 1, 3, 4, 6, 9));
}

/// Changes only masks, by a random number whose range depends on the field's shape.
struct Shift {
  static constexpr std::string_view kName = "shift";
  struct Drawn {
    std::uint32_t by;
  };
  void validate() const {}
  bool touches(FieldKind kind) const { return kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const { return in; }
  bool is_random() const { return true; }
  Drawn draw(const RandomKey& key, const Shape& shape) const {
    return {RandomStream(key).below(static_cast<std::uint32_t>(shape[0])) % 2};
  }
  void apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    for (std::size_t i = 0; i < in.bytes(); ++i) {
      out.data[i] = static_cast<std::byte>((std::to_integer<unsigned>(in.data[i]) + drawn.by) % 5);
    }
  }
};

TEST(JpegWire, MaskOnlyTransformsAreAllowedAtAnyPosition) {
  const Chain chain = {{"first", Shift{}},
                       {"crop", RandomResizedCrop{{16, 24}}},
                       {"then", Shift{}},
                       {"flip", RandomHorizontalFlip{}},
                       {"last", Shift{}}};
  EXPECT_EQ(compare(jpeg_set(10), chain, as_files(), 6).size(), 30U);
}

TEST(JpegWire, FilesLargerThanTheSlotAreDecodedByWorkers) {
  const auto set = jpeg_set(10);
  DataLoaderOptions options = as_files();
  options.jpeg_bytes = set->files[3].size();
  std::size_t fitting = 0;
  for (const auto& file : set->files) fitting += file.size() <= options.jpeg_bytes ? 1 : 0;
  ASSERT_GT(fitting, 1U);
  ASSERT_LT(fitting, 10U);
  // The finished image must be smaller than the files, because the slot also needs space for that.
  const Chain chain = {{"crop", RandomResizedCrop{8}}};
  const SlabLayout layout = DataLoader::plan_layout(*set, chain, options);
  const std::size_t room = layout.field("image").sample_bytes - JpegSlot::kBytes;
  std::size_t with_alignment = 0;
  for (const auto& file : set->files) with_alignment += file.size() <= room ? 1 : 0;
  EXPECT_EQ(compare(set, chain, options, 2).size(), with_alignment);
}

TEST(JpegWire, TooSmallJpegBytesDecodesAllFilesInWorkers) {
  const Chain chain = {{"resize", Resize{{8, 8}}}};
  DataLoaderOptions options = as_files();
  EXPECT_EQ(compare(jpeg_set(10), chain, options, 2).size(), 2 * kBatchSize);
  options.jpeg_bytes = 1;
  EXPECT_THAT(compare(jpeg_set(10), chain, options, 2), testing::IsEmpty());
}

TEST(JpegWire, LayoutHoldsDecodedImagesOnDeviceAndCopiesNoFiles) {
  const auto set = jpeg_set(10);
  DataLoaderOptions options{{.batch_size = 4}, {}};
  options.wire = {{"image", Wire::jpeg}, {"number", Wire::smallest}};
  options.jpeg_bytes = 1000;
  const Chain chain = {{"resize", Resize{{8, 12}}}};
  const SlabLayout layout = DataLoader::plan_layout(*set, chain, options);
  const SlabField& image = layout.field("image");
  EXPECT_EQ(image.sample_bytes, 1088U);  // 64 + 1000, rounded up to the next multiple of 64
  EXPECT_EQ(image.offset_bytes, layout.copied_bytes);
  EXPECT_EQ(layout.bytes, layout.copied_bytes + 4352);
  // 4 * 8 * 12 * 3 bytes, rounded up to the alignment
  EXPECT_EQ(image.device_offset_bytes, layout.device_bytes - 1280);
  EXPECT_EQ(image.device_offset_bytes % 256, 0U);
  for (const PackedField& packed : *layout.packed) {
    EXPECT_LE(packed.to_offset_bytes + packed.to_bytes(), image.device_offset_bytes);
  }
  options.wire = {
      {"image", Wire::jpeg}, {"number", Wire::host}, {"label", Wire::host}, {"boxes", Wire::host}};
  const SlabLayout images_alone = DataLoader::plan_layout(*set, chain, options);
  EXPECT_EQ(images_alone.copied_bytes, 0U);
  EXPECT_EQ(images_alone.device_bytes, 1280U);
}

TEST(JpegWire, CutsGiveSameImagesAsWithoutCut) {
  const Chain chain = {{"crop", RandomResizedCrop{{16, 24}}}, {"flip", RandomHorizontalFlip{}}};
  DataLoaderOptions options = as_files(2);
  options.shuffle = false;
  options.cut = HostCut{"read", 10};
  DataLoader after_read(jpeg_set(10), chain, options);
  options.cut = HostCut{"collate", 2};
  DataLoader whole(jpeg_set(10), chain, options);
  options.cut.reset();
  DataLoader fresh(jpeg_set(10), chain, options);
  const SlabField& field = fresh.layout().field("image");
  for (int i = 0; i < 2; ++i) {
    const HostBatch batches[] = {after_read.next(), whole.next(), fresh.next()};
    for (std::size_t at = 0; at < kBatchSize; ++at) {
      EXPECT_EQ(jpeg_slot(field, batches[0].data, at).holds, JpegSlot::Holds::file);
      const Bytes expected = read_image(field, batches[2], at);
      EXPECT_EQ(read_image(field, batches[0], at), expected);
      EXPECT_EQ(read_image(field, batches[1], at), expected);
    }
  }
}

TEST(JpegWire, UnsupportedTransformsAreRefusedWithAdvice) {
  const auto refused = [](const Chain& chain, const std::string& says,
                          const std::shared_ptr<JpegSet>& set = jpeg_set(10)) {
    EXPECT_THAT(
        refusal(set, chain, as_files()),
        AllOf(HasSubstr("field 'image' cannot have the wire format jpeg: "), HasSubstr(says)));
  };
  refused({{"crop", RandomCrop{8, 2}}}, "transform 'crop' pads");
  refused({{"crop", RandomCrop{8, 0, true}}}, "transform 'crop' pads");
  refused({{"resize", Resize{{8, 8}, true, Interpolation::bicubic}}},
          "transform 'resize' cannot be applied");
  refused({{"first", RandomHorizontalFlip{}}, {"resize", Resize{{8, 8}}}},
          "transform 'first' cannot be applied to the decoded image on the device");
  refused({{"resize", Resize{{8, 8}}}, {"second", CenterCrop{4}}},
          "transform 'second' cannot be applied");
  refused({{"resize", Resize{{8, 8}}}, {"float", ToDtype{.scale = true}}},
          "the format needs images of uint8");
  refused({{"resize", Resize{{8, 8}}}, {"bright", Brighten{}}},
          "transform 'bright' cannot be applied");
  const auto own = jpeg_set(10);
  own->decodes_default = false;
  refused({{"resize", Resize{{8, 8}}}}, "the data set decodes its images itself", own);
}

TEST(JpegWire, OptionsThatNeedDecodedPixelsAreRefused) {
  const Chain chain = {{"resize", Resize{{8, 8}}}};
  DataLoaderOptions options = as_files();
  for (const char* after : {"decode", "resize"}) {
    options.cut = HostCut{after, 4};
    EXPECT_THAT(refusal(jpeg_set(10), chain, options),
                HasSubstr(std::string("a cut after '") + after + "' caches pixels"));
  }
  options = as_files();
  options.decode.scaled = true;
  EXPECT_THAT(refusal(jpeg_set(10), chain, options), HasSubstr("turn scaled decoding off"));
  options = as_files();
  options.cache = CacheOptions{"decode", 1 << 20};
  EXPECT_THAT(refusal(jpeg_set(10), chain, options),
              HasSubstr("a cache after 'decode' contains pixels"));
  options = as_files();
  options.jpeg_bytes = std::size_t{1} << 31;
  EXPECT_THAT(refusal(jpeg_set(10), chain, options), HasSubstr("use at most 1073741824"));
}

TEST(JpegWire, PixelLimitAppliesToFiles) {
  DataLoaderOptions options = as_files();
  options.shuffle = false;
  options.decode.pixel_limit = 40 * 80;  // the first picture's size
  DataLoader loader(jpeg_set(10), {{"resize", Resize{{8, 8}}}}, options);
  EXPECT_THAT(message_of_next(loader),
              AllOf(HasSubstr("of sample 1 "), HasSubstr("over the limit of 3200")));
}

TEST(JpegWire, DamagedFileErrorNamesStepAndSample) {
  const auto set = jpeg_set(10);
  // without an end marker, the CPU decodes the file
  set->files[4].resize(set->files[4].size() - 2);
  set->files[6][3] = std::byte{0};
  DataLoaderOptions options = as_files();
  options.shuffle = false;
  DataLoader loader(set, {{"crop", RandomResizedCrop{{16, 24}}}}, options);
  EXPECT_THAT(message_of_next(loader),
              AllOf(HasSubstr("step 'decode' of sample 4"), HasSubstr("picture 4.jpg")));
}

TEST(JpegWire, UnpackingTruncatedFileThrows) {
  auto file = jpeg_set(1)->files[0];
  JpegSlot slot;
  slot.region = {0, 0, 40, 80};
  HostArray out;
  const MutableArray to = out.reset(DType::uint8, {8, 8, 3});
  EXPECT_EQ(thrown_by([&] { unpack_jpeg(slot, file, {}, to); }), "nothing");
  file.resize(file.size() / 2);
  EXPECT_THAT(thrown_by([&] { unpack_jpeg(slot, file, {}, to); }), HasSubstr("Error: "));
}

std::vector<std::byte> make_file(JpegKind kind, std::int64_t height = 33, std::int64_t width = 47) {
  const bool is_gray = kind.colors == Colors::gray;
  const bool has_ink = kind.colors == Colors::cmyk || kind.colors == Colors::ycck;
  const int channels = is_gray ? 1 : (has_ink ? 4 : 3);
  return write_jpeg(kind, height, width, noisy_levels(height, width, channels));
}

TEST(JpegEngine, AcceptsBaselineGrayAndYcbcrWithCommonSubsampling) {
  for (const int across : {1, 2}) {
    for (const int down : {1, 2}) {
      EXPECT_EQ(jpeg::shape_for_engines(make_file({.across = across, .down = down})),
                Shape({33, 47}));
    }
  }
  EXPECT_EQ(jpeg::shape_for_engines(make_file({.colors = Colors::gray})), Shape({33, 47}));
  EXPECT_EQ(jpeg::shape_for_engines(make_file({.restart_rows = 1})), Shape({33, 47}));
}

TEST(JpegEngine, RejectsOtherKindsAndFormats) {
  const JpegKind others[] = {{.across = 4},
                             {.across = 4, .down = 2},
                             {.is_progressive = true},
                             {.is_arithmetic = true},
                             {.has_scan_each = true},
                             {.colors = Colors::rgb},
                             {.colors = Colors::rgb, .has_adobe_marker = false},
                             {.colors = Colors::cmyk},
                             {.colors = Colors::ycck},
                             {.colors = Colors::gray, .across = 2}};
  for (const JpegKind& kind : others) {
    EXPECT_EQ(jpeg::shape_for_engines(make_file(kind)), std::nullopt)
        << static_cast<int>(kind.colors) << ", " << kind.across << ", " << kind.is_progressive
        << ", " << kind.is_arithmetic << ", " << kind.has_scan_each;
  }
  for (const int turn : {2, 5, 8}) {
    const auto record = image_record("exif_" + std::to_string(turn) + ".jpg");
    EXPECT_EQ(jpeg::shape_for_engines(record.file), std::nullopt) << turn;
  }
  const auto levels = noisy_levels(4, 4, 3);
  EXPECT_EQ(jpeg::shape_for_engines(encode_png(view_levels(levels, {4, 4, 3}))), std::nullopt);
  EXPECT_EQ(jpeg::shape_for_engines({}), std::nullopt);
}

TEST(JpegEngine, RejectsFirstScanWithoutAllComponents) {
  auto file = make_file({});
  for (std::size_t i = 0; i + 4 < file.size(); ++i) {
    if (file[i] == std::byte{0xff} && file[i + 1] == std::byte{0xda}) {
      ASSERT_EQ(file[i + 4], std::byte{3});
      file[i + 4] = std::byte{1};
      break;
    }
  }
  EXPECT_EQ(jpeg::shape_for_engines(file), std::nullopt);
}

TEST(JpegEngine, AdobeMarkerIsAcceptedOnlyForYcbcr) {
  for (const unsigned transform : {0U, 1U, 2U}) {
    auto file = make_file({});
    const unsigned segment[] = {0xff, 0xee, 0,   14, 'A', 'd', 'o', 'b',
                                'e',  0,    100, 0,  0,   0,   0,   transform};
    auto at = file.begin() + 2;
    for (const unsigned byte : segment) at = file.insert(at, static_cast<std::byte>(byte)) + 1;
    EXPECT_EQ(jpeg::shape_for_engines(file).has_value(), transform == 1) << transform;
  }
}

TEST(JpegEngine, RejectsImagesOverThePixelLimit) {
  auto file = make_file({}, 16, 16);
  const auto set_height = [&](unsigned height) {
    for (std::size_t i = 0; i + 8 < file.size(); ++i) {
      if (file[i] != std::byte{0xff} || file[i + 1] != std::byte{0xc0}) continue;
      file[i + 5] = static_cast<std::byte>(height >> 8);
      file[i + 6] = static_cast<std::byte>(height & 0xff);
      file[i + 7] = std::byte{0x80};  // 32,784 columns
      return;
    }
  };
  set_height(255);
  EXPECT_TRUE(jpeg::shape_for_engines(file).has_value());
  set_height(256);
  EXPECT_EQ(jpeg::shape_for_engines(file), std::nullopt);
}

TEST(JpegEngine, RejectsScansWithUnexpectedMarkers) {
  const auto file = make_file({.restart_rows = 1}, 80, 16);
  const auto marker = [](std::byte last) { return std::vector{std::byte{0xff}, last}; };
  const auto with = [&](std::byte from, std::byte to) {
    const auto changed = marker(from);
    auto copy = file;
    const auto at = std::find_end(copy.begin(), copy.end(), changed.begin(), changed.end());
    EXPECT_NE(at, copy.end());
    *(at + 1) = to;
    return jpeg::shape_for_engines(copy).has_value();
  };
  EXPECT_TRUE(with(std::byte{0xd3}, std::byte{0xd3}));
  EXPECT_FALSE(with(std::byte{0xd3}, std::byte{0xd4}));
  EXPECT_FALSE(with(std::byte{0xd3}, std::byte{0xda}));
  EXPECT_FALSE(with(std::byte{0xdd}, std::byte{0xfe}));  // so the file has no restart interval
  EXPECT_FALSE(with(std::byte{0xd3}, std::byte{0x00}));
}

TEST(JpegEngine, RejectsTruncatedFiles) {
  const auto file = make_file({.restart_rows = 1}, 16, 16);
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
    const std::vector<std::byte> part(file.begin(),
                                      file.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_EQ(jpeg::shape_for_engines(part), std::nullopt) << bytes;
  }
}

}  // namespace
}  // namespace slipstream
