"""What tools/mutate.py breaks in the calls on videos and in softmax, and which test must notice."""

from mutations import Mutation, specification


def cpu(name, path, old, new, test):
    return Mutation(f"cpu {name}", path, old, new, "parity_tests", f"Each/VideoParity.{test}/cpu")


VIDEO_MUTATIONS = [
    # --- conv3d ---
    specification("conv3d: rows and columns swapped", "src/reference/conv3d.cc", "(t * edge + i) * edge + j, out",
                  "(t * edge + j) * edge + i, out",
                  "ReferenceConv3d.SumsOverTapsWithZerosAroundFramesAndNoneBeforeThem", "unit_tests"),
    specification("conv3d: the frame before", "src/reference/conv3d.cc", "frame + t, r * width_",
                  "frame + args_.kernel_frames - 1 - t, r * width_",
                  "ReferenceConv3d.SumsOverTapsWithZerosAroundFramesAndNoneBeforeThem", "unit_tests"),
    cpu("conv3d: frames wrap around", "src/cpu/conv3d/conv3d.cc", "c < 0 || c >= width_", "c < 0", "Conv3d"),
    cpu("conv3d: one kernel for all frames", "src/cpu/conv3d/conv3d.cc", "frame + tap / (edge * edge)", "frame",
        "Conv3d"),
    # --- pixel_norm ---
    specification("pixel_norm: x is not added", "src/reference/pixel_norm.cc",
                  "if (args.residual == Residual::kAdd) add_scaled(v, 1.0,",
                  "if (args.residual == Residual::kAdd) add_scaled(v, 0.0,",
                  "ReferencePixelNorm.AddsNormsAndActivates", "unit_tests"),
    specification("pixel_norm: the mean of squares", "src/reference/pixel_norm.cc",
                  "std::sqrt(static_cast<double>(v.size())) /", "1.0 /",
                  "ReferencePixelNorm.AddsNormsAndActivates", "unit_tests"),
    cpu("pixel_norm: no bias", "src/cpu/pixel_norm/pixel_norm.cc", "v[i] += bias_[static_cast<size_t>(i % n)]",
        "v[i] += 0.0F * bias_[static_cast<size_t>(i % n)]", "PixelNorm"),
    cpu("pixel_norm: no activation", "src/cpu/pixel_norm/pixel_norm.cc", "v[i] / (1.0F + std::exp(-v[i]))", "v[i]",
        "PixelNorm"),
    cpu("pixel_norm: a NaN is dropped", "src/cpu/pixel_norm/pixel_norm.cc", "(length < kLeast ? kLeast : length)",
        "(length > kLeast ? length : 1e30F)", "PixelNormOfZerosAndOfNaN"),
    # --- upsample ---
    specification("upsample: frames the other way round", "src/reference/upsample.cc",
                  "x.begin() + f % args.frames_each * channels",
                  "x.begin() + (args.frames_each - 1 - f % args.frames_each) * channels",
                  "ReferenceUpsample.PartsOfTheChannelsAreFramesAndPixelsBecomeFour", "unit_tests"),
    cpu("upsample: every second column is left out", "src/cpu/upsample/upsample.cc", "copy % 2) * channels",
        "0 * copy % 2) * channels", "Upsample"),
    # --- softmax ---
    specification("softmax: scale dropped", "src/reference/softmax.cc", "std::exp(scale * x[n] - most)",
                  "std::exp(x[n] - most)", "ReferenceSoftmax.ColumnsBehindTheOnesThatCountAreZero", "unit_tests"),
    cpu("softmax: a column too few in the sum", "src/cpu/softmax/softmax.cc", "    sum += e[n];",
        "    sum += n == 0 ? 0.0F : e[n];", "Softmax"),
]
