"""What tools/mutate.py breaks in what programs do with any device, and which test must notice."""

from mutations import Mutation


def broken(name, file, old, new, test):
    return Mutation(f"device: {name}", file, old, new, "device_backend_tests", test)


def text(name, old, new, test="Stored/DeviceText.EveryStepIsThatOfTheCpu/*"):
    return broken(f"text: {name}", "runtime/text/device/umt5_steps.cc", old, new, test)


def vae(name, file, old, new, test="DeviceVae.GivesTheFramesOfTheCpuForEverySplit"):
    return broken(f"vae: {name}", f"runtime/vae/device/{file}", old, new, test)


DEVICE_MUTATIONS = [
    # --- memory, streams and clock ---
    broken("another device stays current", "src/api/current_device.h",
           "if (before_ >= 0) static_cast<void>(functions_.make_current(before_));", "static_cast<void>(before_);",
           "DeviceWork.EveryFunctionWorksOnItsOwnDeviceOnEveryThread"),
    broken("pinned copies begin at the beginning", "src/api/device_stream.cc",
           "static_cast<const std::byte*>(from.data()) + offset_bytes", "static_cast<const std::byte*>(from.data())",
           "DeviceWork.PinnedCopiesAreThereOnceTheirEventWasWaitedFor"),
    broken("vsa bench: the cache stays warm", "cli/common/device_clock.cc",
           "check(device.stream().fill(impl_->flush, 0, Impl::kFlushBytes));", "",
           "DeviceBench.TimesCallsByTheClockOfTheDevice"),
    broken("vsa bench: emptying the cache is timed", "cli/common/device_clock.cc",
           "  check(device.stream().fill(impl_->flush, 0, Impl::kFlushBytes));\n"
           "  check(device.stream().record(impl_->begin));",
           "  check(device.stream().record(impl_->begin));\n"
           "  check(device.stream().fill(impl_->flush, 0, Impl::kFlushBytes));",
           "DeviceBench.TimesCallsByTheClockOfTheDevice"),
    # --- weights that come while the device computes ---
    broken("weights: a part is filled before it was copied", "runtime/device/weight_stream.cc",
           "VSA_TRY(part.copied.wait());", "", "DeviceWeightStream.BringsWhatDoesNotFitAtOnce"),
    broken("weights: those with a scale are copied as they are", "runtime/device/weight_bytes.cc",
           "weight.scale == 1.0F &&", "weight.scale != 0.0F &&", "DeviceWeightStream.BringsWhatDoesNotFitAtOnce"),
    # --- the text encoder on a device ---
    text("a layer does not wait for its weights", "VSA_TRY(memory_->device().stream().wait_for(slot(layer).brought));",
         "", "Stored/DeviceText.PromptsFollowEachOther/*"),
    text("scores are scaled", ".scale = 1.0F,", ".scale = {},"),
    text("every layer has the biases of the first", "+ layer * config_.num_heads * row,",
         "+ 0 * layer * config_.num_heads * row,"),
    text("the GELU is on the other branch", ".gate_fine = Gate::tensor(ConstTensor::bshd(wide_.data(), token_, dims))",
         ".gate_fine = Gate::tensor(ConstTensor::bshd(linear_.data(), token_, dims))"),
    text("the norm after attention is that before it", "return norm({.index = 2 * layer + 1, .add = true});",
         "return norm({.index = 2 * layer, .add = true});"),
    # --- the VAE's decoder on a device ---
    vae("a convolution keeps the frames before the last two", "work.cc", "copy(packed(p_, frames, behind, in), kept_frames)",
        "copy(packed(p_, frames - 1, behind, in), kept_frames)"),
    vae("the first frame is doubled, too", "layers.cc", "run.layer.temporal && !run.first_chunk", "run.layer.temporal"),
    vae("a stripe begins without the row that its first one needs", "layers.cc", "std::max(in.begin, out.begin - 1)",
        "std::max(in.begin, out.begin)"),
    vae("the residual is not multiplied where channels change", "layers.cc", "work.swap_x_and_t();", ""),
    vae("the values have no bias", "products.cc", "product(w, v_t, bias_of(weights.v), rows_of(out))",
        "product(w, v_t, {}, rows_of(out))"),
    vae("the history of a part is not counted", "memory_needed.cc", "return history.taken_bytes();",
        "return history.taken_bytes() / 2;", "DeviceVae.TakesTheMemoryThatWasCounted"),
    vae("elements are not limited", "memory_needed.cc", "size_bytes(token) <= kMostElements", "size_bytes(token) > 0",
        "DeviceVae.ASplitIsChosenByTheMemoryThereIs"),
    broken("vae: a NaN is not looked for", "runtime/vae/runner.cc", "return enqueues_ ? check_finite(last, chunks_done - 1) : Status();",
           "return last < 0 ? check_finite(last, 0) : Status();", "DeviceVae.ANumberThatIsNotFiniteEndsTheDecoding"),
]
