#include "augment/images.h"

namespace slipstream::augment {

template void launch_images<1>(const PassProgram&, const PassMemory&, const LaunchShape&,
                               cudaStream_t);
template void launch_sums<1>(const PassProgram&, const PassMemory&, std::int32_t, cudaStream_t);

}  // namespace slipstream::augment
