// Plans of cuDNN for a convolution. Host-only.
#ifdef VSA_HAS_CUDNN
#include "src/cuda/conv3d/engines.h"

#include <fmt/format.h>

#include <algorithm>

namespace vsa::cuda {
namespace {

using Extents = std::array<int64_t, 5>;  // [N, C, frames, rows, columns], as cuDNN orders them

/// The strides of channels-last memory.
Extents channels_last(const Extents& dims) {
  const auto& [n, c, f, h, w] = dims;
  return {f * h * w * c, 1, h * w * c, w * c, c};
}

Result<Descriptor> tensor(std::string_view operation, int64_t id, cudnnDataType_t type,
                          const Extents& dims) {
  Result<Descriptor> made = Descriptor::make(operation, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  VSA_TRY(made.status());
  const Extents strides = channels_last(dims);
  VSA_TRY(made->set(operation, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
  VSA_TRY(made->set(operation, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 5, dims.data()));
  VSA_TRY(made->set(operation, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 5, strides.data()));
  VSA_TRY(made->set(operation, CUDNN_ATTR_TENSOR_UNIQUE_ID, id));
  constexpr int64_t kAlignment = 16;  // that validation asks of the backend's rows
  VSA_TRY(made->set(operation, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment));
  VSA_TRY(made->finalize(operation));
  return made;
}

Result<Descriptor> kernel(std::string_view operation, const Convolution& c) {
  Result<Descriptor> made = Descriptor::make(operation, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  VSA_TRY(made.status());
  const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const std::array<int64_t, 3> padding{0, c.kernel_edge / 2, c.kernel_edge / 2};
  constexpr std::array<int64_t, 3> kOnes{1, 1, 1};
  VSA_TRY(made->set(operation, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums));
  VSA_TRY(made->set(operation, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
                    &mode));
  VSA_TRY(made->set(operation, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{3}));
  for (const auto name :
       {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
    VSA_TRY(made->set(operation, name, CUDNN_TYPE_INT64, 3, padding.data()));
  }
  for (const auto name :
       {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES}) {
    VSA_TRY(made->set(operation, name, CUDNN_TYPE_INT64, 3, kOnes.data()));
  }
  VSA_TRY(made->finalize(operation));
  return made;
}

Result<Descriptor> operation_of(std::string_view operation, const Convolution& c) {
  const Result<Descriptor> x =
      tensor(operation, kTensorIds[0], c.type, {1, c.c_in, c.frames, c.height, c.width});
  VSA_TRY(x.status());
  const Result<Descriptor> weight =
      tensor(operation, kTensorIds[1], c.type,
             {c.c_out, c.c_in, c.kernel_frames, c.kernel_edge, c.kernel_edge});
  VSA_TRY(weight.status());
  const Result<Descriptor> out =
      tensor(operation, kTensorIds[2], c.type,
             {1, c.c_out, c.frames - c.kernel_frames + 1, c.height, c.width});
  VSA_TRY(out.status());
  const Result<Descriptor> how = kernel(operation, c);
  VSA_TRY(how.status());
  Result<Descriptor> made =
      Descriptor::make(operation, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  VSA_TRY(made.status());
  VSA_TRY(made->set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, *x));
  VSA_TRY(made->set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, *weight));
  VSA_TRY(made->set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *out));
  VSA_TRY(made->set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, *how));
  const float one = 1.0F;
  const float zero = 0.0F;
  VSA_TRY(made->set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1,
                    &one));
  VSA_TRY(made->set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1,
                    &zero));
  VSA_TRY(made->finalize(operation));
  return made;
}

Result<Descriptor> graph_of(std::string_view operation, const PlanTarget& target,
                            const Convolution& c) {
  const Result<Descriptor> convolution = operation_of(operation, c);
  VSA_TRY(convolution.status());
  Result<Descriptor> graph = Descriptor::make(operation, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  VSA_TRY(graph.status());
  VSA_TRY(graph->set(operation, CUDNN_ATTR_OPERATIONGRAPH_OPS, *convolution));
  if (target.handle != nullptr) {
    VSA_TRY(graph->set(operation, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                       &target.handle));
  }
  VSA_TRY(graph->finalize(operation));
  return graph;
}

/// An attribute with any number of descriptors, notes or numbers. What is not there is empty.
template <class Value>
std::vector<Value> values_of(const Descriptor& of, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, size_t most) {
  std::vector<Value> values(most);
  int64_t count = 0;
  if (cudnn()->cudnnBackendGetAttribute(of.raw(), name, type, static_cast<int64_t>(most), &count,
                                        values.data()) != CUDNN_STATUS_SUCCESS) {
    count = 0;
  }
  values.resize(static_cast<size_t>(std::min(count, static_cast<int64_t>(most))));
  return values;
}

/// The same of descriptors: cuDNN fills those that it is given.
Result<std::vector<Descriptor>> descriptors_of(std::string_view operation, const Descriptor& of,
                                               cudnnBackendAttributeName_t name,
                                               cudnnBackendDescriptorType_t type, size_t most) {
  std::vector<Descriptor> all;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (size_t i = 0; i < most; ++i) {
    Result<Descriptor> one = Descriptor::make(operation, type);
    VSA_TRY(one.status());
    raw.push_back(one->raw());
    all.push_back(std::move(*one));
  }
  int64_t count = 0;
  VSA_TRY(check_cudnn(
      operation, fmt::format("cudnnBackendGetAttribute({})", static_cast<int>(name)),
      cudnn()->cudnnBackendGetAttribute(of.raw(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        static_cast<int64_t>(most), &count, raw.data())));
  all.resize(static_cast<size_t>(std::min(count, static_cast<int64_t>(most))));
  return all;
}

/// The engine configurations that a mode of the heuristics names, the best first.
Result<std::vector<Descriptor>> configurations(std::string_view operation, const PlanTarget& target,
                                               const Descriptor& graph,
                                               cudnnBackendHeurMode_t mode) {
  Result<Descriptor> heuristics = Descriptor::make(operation, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  VSA_TRY(heuristics.status());
  VSA_TRY(heuristics->set(operation, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
  VSA_TRY(heuristics->set(operation, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
  if (target.properties != nullptr) {
    VSA_TRY(heuristics->set(operation, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties));
  }
  // No engine for the graph is not an error of the program.
  if (cudnn()->cudnnBackendFinalize(heuristics->raw()) != CUDNN_STATUS_SUCCESS) {
    return std::vector<Descriptor>();
  }
  constexpr size_t kMost = 64;
  return descriptors_of(operation, *heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMost);
}

/// Whether plans_of may take the engine.
bool is_allowed(const Descriptor& engine) {
  constexpr cudnnBackendNumericalNote_t kRefused[] = {
      CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
      CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
      CUDNN_NUMERICAL_NOTE_FFT,
      CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
      CUDNN_NUMERICAL_NOTE_WINOGRAD,
      CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
      CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
      CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13};
  const auto notes = values_of<cudnnBackendNumericalNote_t>(
      engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
      CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const auto behaviour = values_of<cudnnBackendBehaviorNote_t>(
      engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
      CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  return std::ranges::find_first_of(notes, kRefused) == notes.end() &&
         std::ranges::find(behaviour, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) == behaviour.end();
}

template <class Value>
Value value_of(const Descriptor& of, cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type) {
  const std::vector<Value> one = values_of<Value>(of, name, type, 1);
  return one.empty() ? Value{} : one.front();
}

Result<std::string> name_of(std::string_view operation, const Descriptor& configuration,
                            const Descriptor& engine) {
  std::string name = fmt::format(
      "engine {},", value_of<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64));
  const auto knobs = descriptors_of(operation, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                    CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS);
  VSA_TRY(knobs.status());
  for (const Descriptor& knob : *knobs) {
    name +=
        fmt::format(" {}={}",
                    static_cast<int>(value_of<cudnnBackendKnobType_t>(
                        knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE)),
                    value_of<int64_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64));
  }
  return name;
}

/// Appends the configuration's plan, unless it is one that plans_of leaves out.
Status add_plan(std::string_view operation, const PlanTarget& target,
                const Descriptor& configuration, std::vector<Plan>& plans) {
  const auto engine = descriptors_of(operation, configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  VSA_TRY(engine.status());
  if (engine->empty() || !is_allowed(engine->front())) return {};
  Result<Descriptor> plan = Descriptor::make(operation, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  VSA_TRY(plan.status());
  VSA_TRY(plan->set(operation, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration));
  if (target.handle != nullptr) {
    VSA_TRY(plan->set(operation, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &target.handle));
  }
  if (target.properties != nullptr) {
    VSA_TRY(plan->set(operation, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties));
  }
  // The heuristics also name engines that do not take the shape: finalising says so.
  if (cudnn()->cudnnBackendFinalize(plan->raw()) != CUDNN_STATUS_SUCCESS) return {};
  const auto bytes =
      value_of<int64_t>(*plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64);
  if (bytes > kConvolutionWorkspaceBytes) return {};
  Result<std::string> name = name_of(operation, configuration, engine->front());
  VSA_TRY(name.status());
  plans.push_back({.plan = std::move(*plan), .workspace_bytes = bytes, .name = std::move(*name)});
  return {};
}

}  // namespace

Result<std::vector<Plan>> plans_of(std::string_view operation, const PlanTarget& target,
                                   const Convolution& convolution, size_t most) {
  VSA_TRY(cudnn().status());
  const Result<Descriptor> graph = graph_of(operation, target, convolution);
  VSA_TRY(graph.status());
  std::vector<Plan> plans;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const auto found = configurations(operation, target, *graph, mode);
    VSA_TRY(found.status());
    for (const Descriptor& configuration : *found) {
      if (plans.size() == most) return plans;
      VSA_TRY(add_plan(operation, target, configuration, plans));
    }
  }
  return plans;
}

Result<Plan> plan_of(std::string_view operation, const PlanTarget& target,
                     const Convolution& convolution) {
  Result<std::vector<Plan>> plans = plans_of(operation, target, convolution, 3);
  VSA_TRY(plans.status());
  if (plans->empty()) {
    const Convolution& c = convolution;
    return unsupported(fmt::format(
        "[{}] cuDNN: expected an engine for {} frames of {}x{}, {} to {} channels, got none",
        operation, c.frames, c.height, c.width, c.c_in, c.c_out));
  }
  const auto preferred = std::ranges::find_if(
      *plans, [](const Plan& plan) { return plan.name.starts_with("engine 62,"); });
  return std::move(preferred == plans->end() ? plans->front() : *preferred);
}

}  // namespace vsa::cuda
#endif  // VSA_HAS_CUDNN
