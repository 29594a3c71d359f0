#include "cuda/nvjpeg.h"

#include <gmock/gmock.h>

#include "cuda/jpeg_decoder.h"
#include "support/thrown.h"

namespace slipstream::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Nvjpeg, MissingLibraryErrorNamesPackageToInstall) {
  EXPECT_THAT(thrown_by([] { JpegDecoder({.libraries = {"libno-such-nvjpeg.so"}}); }),
              AllOf(StartsWith("Refused: "), HasSubstr("nvidia-nvjpeg"),
                    HasSubstr("use the wire format plain")));
}

TEST(Nvjpeg, LibraryWithoutNvjpegFunctionsIsRefused) {
  EXPECT_THAT(thrown_by([] {
                JpegDecoder({.libraries = {"libno-such.so", "libm.so.6"}});
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("lacks functions")));
}

TEST(Nvjpeg, SearchPathsIncludeCudaRuntimeFolder) {
  const auto places = nvjpeg::default_locations();
  ASSERT_GE(places.size(), 2U);
  EXPECT_THAT(places[0], StartsWith("libnvjpeg.so."));
  EXPECT_THAT(places[1], AllOf(StartsWith("/"), HasSubstr("/libnvjpeg.so.")));
}

TEST(Nvjpeg, StatusesConvertToNames) {
  EXPECT_EQ(nvjpeg::to_string(4), "JPEG_NOT_SUPPORTED");
  EXPECT_EQ(nvjpeg::to_string(77), "status 77");
}

}  // namespace
}  // namespace slipstream::cuda
