// Simulates the barriers between producers and consumers of the forward fine kernel on the host, in
// random orders of events: no consumer reads a slot that holds something else than it expects, and
// there is no deadlock.
#include <gtest/gtest.h>

#include <coroutine>
#include <functional>
#include <random>
#include <vector>

#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/fine_slots.h"
#include "src/cuda/plan/schedule.h"

namespace vsa::cuda {
namespace {

constexpr uint32_t kPairStages = 3, kBlockStages = 4;  // of head_dim 128 and 64
constexpr int kMostRings = 3;
constexpr int kWarps = 4;

/// An mbarrier: a phase ends when all arrivals came and no bytes are outstanding.
struct Barrier {
  int arrivals;
  int left = arrivals;
  int copies = 0;
  uint32_t phase = 0;

  bool done(uint32_t parity) const { return (phase & 1U) != parity; }
  void arrive(int n) {
    left -= n;
    ASSERT_GE(left, 0) << "more arrivals than a phase has";
    flip();
  }
  void copied() {
    --copies;
    flip();
  }

 private:
  void flip() {
    if (left > 0 || copies > 0) return;
    left = arrivals;
    ++phase;
  }
};

/// A warp or warpgroup as a coroutine, which yields conditions that it waits for.
struct Agent {
  struct promise_type {
    std::function<bool()> ready = [] { return true; };
    Agent get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(std::function<bool()> condition) {
      ready = std::move(condition);
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

struct Content {
  int item = -1, list = -1, step = -1;
  bool operator==(const Content&) const = default;
};

struct Machine {
  std::vector<ScheduleHead> items;
  std::vector<int> single;  // of each item: which half is a unit without the other, or -1
  std::mt19937 random;

  struct Slot {
    Barrier full{1}, empty{2 * kWarps};
    Content content;
  };
  Slot slots[2][kMostRings][kBlockStages];  // [k or v][ring][slot]
  std::vector<std::pair<Slot*, Content>> in_flight;
  Barrier pair_barrier{2 * kWarps};
  int wrong = 0;

  struct NextUnit {
    Barrier full{1}, empty{3};
    int unit = -1;
  };
  NextUnit next_units[sm90::kUnitStages];
  static constexpr int kNoMoreUnits = sm90::ConsumerWork::kNoMoreUnits;
  Barrier full_q[2]{{1}, {1}}, empty_q[2]{{kWarps}, {kWarps}};
  int unit_of_q[2][2];  // of even and odd units, of each consumer

  /// The lists of a unit: a unit of one half has the common list and that half's exclusive list.
  ScheduleHead head_of(int unit) const {
    ScheduleHead head = items[static_cast<size_t>(unit)];
    const int half = single[static_cast<size_t>(unit)];
    if (half >= 0) head.num_exclusive[1 - half] = 0;
    return head;
  }

  /// One of the four producers at head_dim 128: of the k (0) or v (1) slots of one ring. The first
  /// one is the leader, which takes units from the queue.
  Agent producer(int kind, int ring) {
    const bool is_leader = kind == 0 && ring == 0;
    const auto end = static_cast<int>(items.size());
    sm90::RingPosition<sm90::kUnitStages> at_unit;
    uint32_t use = 0;
    uint32_t parity_of_q = 0;
    for (int item = 0; item <= end; parity_of_q ^= 1) {
      if (kind == 0) {
        co_yield [this, ring, parity_of_q] { return empty_q[ring].done(parity_of_q ^ 1U); };
        unit_of_q[parity_of_q][ring] = item < end ? item : kNoMoreUnits;
        full_q[ring].arrive(1);
      }
      if (item == end) break;
      const ScheduleHead head = head_of(item);
      const bool is_single = single[static_cast<size_t>(item)] >= 0;
      std::vector<Content> loads;
      for (int i = 0; i < head.num_common; ++i) {
        if ((head.num_common - i) % 2 == ring) loads.push_back({item, 0, i});
      }
      for (int i = 0; i < head.num_exclusive[ring]; ++i) loads.push_back({item, 1 + ring, i});
      for (const Content& load : loads) {
        Slot& slot = slots[kind][ring][use % kPairStages];
        const uint32_t parity = (use / kPairStages & 1U) ^ 1U;
        ++use;
        co_yield [&slot, parity] { return slot.empty.done(parity); };
        ++slot.full.copies;
        in_flight.push_back({&slot, load});
        if (load.list > 0 || is_single) slot.empty.arrive(kWarps);
        slot.full.arrive(1);
      }
      NextUnit& next = next_units[at_unit.slot()];
      if (is_leader) {
        co_yield [&next, at_unit] { return next.empty.done(at_unit.parity() ^ 1U); };
        next.unit = ++item;
        next.full.arrive(1);
      } else {
        co_yield [&next, at_unit] { return next.full.done(at_unit.parity()); };
        if (next.unit != item + 1) {
          ++wrong;
          break;
        }
        item = next.unit;
        next.empty.arrive(1);
      }
      at_unit = at_unit.next();
    }
  }

  void read(const Slot& slot, Content want) {
    if (!(slot.content == want)) ++wrong;
  }

  struct Use {
    int kind;
    sm90::Slot slot;
    Content content;
  };

  /// As sm90/fine_pair_consumer.h: if the number of slots is odd the first one alone, then two in
  /// an iteration; their keys are waited for together with the values of the two before.
  Agent consumer(int half) {
    sm90::Rings<kPairStages> first;
    uint32_t parity = 0;  // of barriers that complete once for each unit
    while (true) {
      co_yield [this, half, parity] { return full_q[half].done(parity); };
      const int item = unit_of_q[parity][half];
      if (item == kNoMoreUnits) break;
      for (int warp = 0; warp < kWarps; ++warp) {
        co_yield [] { return true; };
        empty_q[half].arrive(1);
      }
      const ScheduleHead head = head_of(item);
      const bool works = single[static_cast<size_t>(item)] != 1 - half;
      const int num_slots = works ? head.num_common + head.num_exclusive[half] : 0;
      sm90::Rings<kPairStages> rings = first;
      std::vector<std::vector<Use>> waits;  // what is waited for together, then read
      std::vector<Use> values;
      int i = 0;
      while (i < num_slots) {
        const int count = i == 0 && num_slots % 2 != 0 ? 1 : 2;
        std::vector<Use> step = values;
        values.clear();
        int left = num_slots - i;
        const sm90::Slots pair = count == 1
                                     ? rings.next_slots<1>(left, head.num_exclusive[half], half)
                                     : rings.next_slots<2>(left, head.num_exclusive[half], half);
        for (int c = 0; c < count; ++c, ++i) {
          const Content content = i < head.num_common
                                      ? Content{item, 0, i}
                                      : Content{item, 1 + half, i - head.num_common};
          step.push_back({0, pair[c], content});
          values.push_back({1, pair[c], content});
        }
        if (count == 1) {
          step.insert(step.end(), values.begin(), values.end());
          values.clear();
        }
        waits.push_back(step);
      }
      if (!values.empty()) waits.push_back(values);
      for (const std::vector<Use>& uses : waits) {
        for (const Use& use : uses) {
          co_yield [this, use] { return at(use).full.done(use.slot.parity()); };
        }
        for (const int kind : {0, 1}) {  // keys are released first
          for (const Use& use : uses) {
            for (int warp = 0; warp < kWarps && use.kind == kind; ++warp) {
              co_yield [] { return true; };
              read(at(use), use.content);
              at(use).empty.arrive(1);
            }
          }
        }
      }
      if (unit_of_q[parity][half] != item) ++wrong;
      first.skip(head.num_common, head.num_exclusive);
      for (int warp = 0; warp < kWarps; ++warp) pair_barrier.arrive(1);
      co_yield [this, parity] { return pair_barrier.done(parity); };
      parity ^= 1;
    }
  }
  Slot& at(const Use& use) {
    return slots[use.kind][use.slot.number() / kPairStages][use.slot.number() % kPairStages];
  }

  // At head_dim 64: unit u is half u % 2 of item u / 2, and a consumer takes every third unit.
  int num_units() const { return 2 * static_cast<int>(items.size()); }
  int num_slots(int unit) const {
    const ScheduleHead& head = items[static_cast<size_t>(unit / 2)];
    return head.num_common + head.num_exclusive[unit % 2];
  }

  /// The producer of a ring at head_dim 64: k and v of each slot alternately.
  Agent block_producer(int ring) {
    sm90::RingPosition<kBlockStages> use;
    for (int unit = ring; unit < num_units(); unit += kMostRings) {
      for (int i = 0; i < num_slots(unit); ++i, use = use.next()) {
        for (const int kind : {0, 1}) {
          Slot& slot = slots[kind][ring][use.slot()];
          const uint32_t parity = use.parity() ^ 1U;
          co_yield [&slot, parity] { return slot.empty.done(parity); };
          ++slot.full.copies;
          in_flight.push_back({&slot, {unit, 0, i}});
          slot.full.arrive(1);
        }
      }
    }
  }

  /// As sm90/fine_block_consumer.h: the keys of a slot are waited for together with the values of
  /// the slot before, which are released first.
  Agent block_consumer(int ring) {
    sm90::RingPosition<kBlockStages> use, before;
    for (int unit = ring; unit < num_units(); unit += kMostRings) {
      const int count = num_slots(unit);
      for (int i = 0; i <= count && count > 0; ++i) {
        Slot* const keys = i < count ? &slots[0][ring][use.slot()] : nullptr;
        Slot* const values = i > 0 ? &slots[1][ring][before.slot()] : nullptr;
        if (keys != nullptr) co_yield [keys, use] { return keys->full.done(use.parity()); };
        if (values != nullptr) {
          co_yield [values, before] { return values->full.done(before.parity()); };
        }
        for (const auto& [slot, step] : {std::pair{values, i - 1}, std::pair{keys, i}}) {
          for (int warp = 0; warp < kWarps && slot != nullptr; ++warp) {
            co_yield [] { return true; };
            read(*slot, {unit, 0, step});
            slot->empty.arrive(1);
          }
        }
        before = use;
        if (i < count) use = use.next();
      }
    }
  }

  bool run_pairs() {
    std::vector<Agent> agents{producer(0, 0), producer(0, 1), producer(1, 0), producer(1, 1)};
    for (const int half : {0, 1}) agents.push_back(consumer(half));
    return run(agents);
  }
  bool run_blocks() {
    std::vector<Agent> agents;
    for (int ring = 0; ring < kMostRings; ++ring) {
      for (auto& kind : slots) {
        for (Slot& slot : kind[ring]) slot.empty = {kWarps};
      }
      agents.push_back(block_producer(ring));
      agents.push_back(block_consumer(ring));
    }
    return run(agents);
  }

 private:
  /// Runs the coroutines that can continue, one at a time, in random order. False on a deadlock.
  bool run(std::vector<Agent>& agents) {
    bool finished = false;
    while (true) {
      std::vector<size_t> able;
      finished = true;
      for (size_t i = 0; i < agents.size(); ++i) {
        if (agents[i].handle.done()) continue;
        finished = false;
        if (agents[i].handle.promise().ready()) able.push_back(i);
      }
      const size_t choices = able.size() + in_flight.size();
      if (finished || choices == 0) break;
      const size_t choice = random() % choices;
      if (choice < able.size()) {
        agents[able[choice]].handle.resume();
      } else {  // a copy lands, in any order
        const auto at = in_flight.begin() + static_cast<std::ptrdiff_t>(choice - able.size());
        at->first->content = at->second;
        at->first->full.copied();
        in_flight.erase(at);
      }
    }
    for (Agent& agent : agents) agent.handle.destroy();
    return finished;
  }
};

/// Items with short and long, equal and unequal lists.
std::vector<ScheduleHead> random_items(int trial, std::mt19937& random) {
  std::vector<ScheduleHead> items;
  const int most = trial % 4 == 0 ? 2 : 12;
  for (int item = 0; item < 8; ++item) {
    ScheduleHead head;
    const auto below = [&](int n) {
      return static_cast<int32_t>(random() % static_cast<unsigned>(n));
    };
    head.num_common = below(most);
    if (below(3) > 0) {
      head.num_exclusive[0] = below(most);
      head.num_exclusive[1] = below(2) > 0 ? head.num_exclusive[0] : below(most);
    }
    items.push_back(head);
  }
  return items;
}

TEST(FineRings, AnyOrderOfEventsDeliversTheRightSlots) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    const std::vector<ScheduleHead> items = random_items(trial, random);
    for (const bool is_paired : {true, false}) {
      Machine machine;
      machine.random.seed(static_cast<unsigned>(trial));
      machine.items = items;
      for (size_t i = 0; i < items.size(); ++i) {
        machine.single.push_back(trial % 2 == 0 ? -1 : static_cast<int>(random() % 3) - 1);
      }
      ASSERT_TRUE(is_paired ? machine.run_pairs() : machine.run_blocks())
          << "deadlock, trial " << trial;
      ASSERT_EQ(machine.wrong, 0) << "a slot was read that held something else, trial " << trial;
    }
  }
}

TEST(StepPacker, NeverOverfillsAStepAndAlignsBlocks) {
  std::mt19937 random(1);
  StepPacker packer;
  int32_t end = kBlockTokens;
  int32_t steps = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto len = static_cast<int32_t>(1 + random() % 63);
    const StepPacker::Place at = packer.place(len);
    if (at.opens_step) {
      ++steps;
      EXPECT_EQ(at.row, 0);
    } else {
      EXPECT_GE(at.row, end);
    }
    EXPECT_EQ(at.row % 8, 0);
    EXPECT_LE(at.row + len, kBlockTokens);
    end = at.row + len;
  }
  EXPECT_EQ(packer.num_steps, steps);
  EXPECT_EQ(row_bits(8, 3), 0x700U);
  EXPECT_EQ(row_bits(0, 64), ~uint64_t{0});
}

}  // namespace
}  // namespace vsa::cuda
