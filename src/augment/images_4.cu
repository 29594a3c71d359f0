#include "augment/images.h"

namespace slipstream::augment {

template void launch_images<4>(const PassProgram&, const PassMemory&, const LaunchShape&,
                               cudaStream_t);

}  // namespace slipstream::augment
