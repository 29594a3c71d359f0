#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cuda/symbol.h"

namespace slipstream::cuda::nvjpeg {

// The part of nvJPEG's binary interface that is used here. The library is opened at run time, so
// that programs start without it. jpeg_decoder_test.cpp compares these definitions with <nvjpeg.h>
// if that is installed. Source: NVIDIA, "nvJPEG Library Guide", CUDA 13.0.

using Status = int;
inline constexpr Status kSuccess = 0;

using Backend = int;
inline constexpr Backend kGpuHybrid = 2;
inline constexpr Backend kHardware = 3;

inline constexpr unsigned kUpsamplingWithInterpolation = 1U << 5;
inline constexpr int kOutputRgbi = 5;  ///< interleaved RGB in the first channel

struct HandleData;
struct StateData;
struct StreamData;
using Handle = HandleData*;
using State = StateData*;
using Stream = StreamData*;

/// Only the first channel of interleaved output is used.
struct Image {
  unsigned char* channel[4];
  std::size_t pitch[4];
};

using Allocate = int(void* context, void** memory, std::size_t bytes, cudaStream_t stream);
using Free = int(void* context, void* memory, std::size_t bytes, cudaStream_t stream);

/// Allocation functions, for device memory or for page-locked memory.
struct Allocator {
  Allocate* allocate;
  Free* free;
  void* context;
};

/// Returns a status's name, such as "JPEG_NOT_SUPPORTED".
std::string to_string(Status status);

/// Candidate paths for the library of this program's CUDA version, best first.
std::vector<std::string> default_locations();

/// The opened library. Throws Refused with what to install if none of `places` can be opened.
struct Library {
  explicit Library(const std::vector<std::string>& places);

  void* handle;
  Symbol<Status(Backend, Allocator*, Allocator*, unsigned, Handle*)> create{handle,
                                                                            "nvjpegCreateExV2"};
  Symbol<Status(Handle)> destroy{handle, "nvjpegDestroy"};
  Symbol<Status(Handle, State*)> create_state{handle, "nvjpegJpegStateCreate"};
  Symbol<Status(State)> destroy_state{handle, "nvjpegJpegStateDestroy"};
  Symbol<Status(Handle, Stream*)> create_stream{handle, "nvjpegJpegStreamCreate"};
  Symbol<Status(Stream)> destroy_stream{handle, "nvjpegJpegStreamDestroy"};
  Symbol<Status(Handle, const unsigned char*, std::size_t, Stream)> parse_header{
      handle, "nvjpegJpegStreamParseHeader"};
  Symbol<Status(Stream, unsigned*, unsigned*)> frame_size{handle,
                                                          "nvjpegJpegStreamGetFrameDimensions"};
  Symbol<Status(Stream, int*)> subsampling{handle, "nvjpegJpegStreamGetChromaSubsampling"};
  Symbol<Status(Stream, int*)> encoding{handle, "nvjpegJpegStreamGetJpegEncoding"};
  Symbol<Status(Stream, unsigned*)> components{handle, "nvjpegJpegStreamGetComponentsNum"};
  Symbol<Status(Handle, Stream, int*)> is_supported{handle, "nvjpegDecodeBatchedSupported"};
  Symbol<Status(Handle, State, int, int, int)> begin_batch{handle, "nvjpegDecodeBatchedInitialize"};
  Symbol<Status(Handle, State, const unsigned char* const*, const std::size_t*, Image*,
                cudaStream_t)>
      decode_batch{handle, "nvjpegDecodeBatched"};
};

}  // namespace slipstream::cuda::nvjpeg
