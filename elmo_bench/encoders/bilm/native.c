/* What torch does in many passes over memory, in one: the arithmetic of an LSTM's step between its
   products, and the convolutions of the character CNN.

   Built where a C compiler is at hand; `step.py` and `bilm.CharCnn` have the same in torch. No header
   of Python or torch is needed: it is called with addresses, and without Python's lock.

   Axes: n rows, z cells, f filters. Gates are i, j, f, o, each z wide. A "low" array holds bfloat16,
   any other float32; all are dense, row after row. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* One binary for all processors of a family: the loader takes what fits the one that it runs on. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

/* torch's own threads, where it has OpenMP: a second pool beside it would fight for the cores. */
#if defined(__ELF__)
extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_get_num_threads(void) __attribute__((weak));
#endif

#define LEAST 16384 /* numbers that are worth another thread */
#define BLOCK 16    /* columns are handed out by so many: a line of a cache */
#define WIDE 64     /* filters that are looked up at a time */

typedef void part(const void *, int64_t first, int64_t last);
struct work {
    part *run;
    const void *of;
    int64_t size;
};

static void share(void *given) {
    const struct work *work = given;
    int64_t number = 0, threads = 1;
#if defined(__ELF__)
    number = omp_get_thread_num(), threads = omp_get_num_threads();
#endif
    int64_t blocks = (work->size + BLOCK - 1) / BLOCK;
    int64_t first = blocks * number / threads * BLOCK;
    int64_t last = blocks * (number + 1) / threads * BLOCK;
    last = last < work->size ? last : work->size;
    if (first < last) work->run(work->of, first, last);
}

static void parallel(part *run, const void *of, int64_t size, int64_t numbers, int64_t threads) {
    struct work work = {run, of, size};
    if (threads > numbers / LEAST) threads = numbers / LEAST;
#if defined(__ELF__)
    if (threads > 1 && GOMP_parallel && omp_get_thread_num && omp_get_num_threads) {
        GOMP_parallel(share, &work, (unsigned)threads, 0);
        return;
    }
#endif
    run(of, 0, size);
}

INLINE float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE uint32_t to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* No two arrays overlap, but for those that are one. */
#define APART _Pragma("GCC ivdep")

INLINE float get(const void *x, int64_t k, int low) {
    return low ? from_bits((uint32_t)((const uint16_t *)x)[k] << 16) : ((const float *)x)[k];
}

INLINE void put(void *x, int64_t k, int low, float value) {
    if (low) {
        uint32_t bits = to_bits(value); /* rounded to the nearest, ties to even */
        ((uint16_t *)x)[k] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    } else {
        ((float *)x)[k] = value;
    }
}

INLINE const void *at(const void *x, int64_t k, int low) {
    return (const char *)x + k * (low ? 2 : 4);
}

/* Where a number is none, it stays none. */
INLINE float clipped(float x, float clip) {
    x = x < -clip ? -clip : x;
    return x > clip ? clip : x;
}

/* exp(x) - 1 to some 1e-7 of it, of x between -30 and 30; beyond, as there. */
INLINE float exp_less_1(float x) {
    x = clipped(x, 30.0f);
    float shifted = x * 1.44269504f + 12582912.0f; /* the fraction's last bits are a whole number */
    float whole = shifted - 12582912.0f;
    float r = x - whole * 0.693359375f; /* ln 2 in two parts, the first with few bits */
    r = r + whole * 2.12194440e-4f;
    float series = 1.0f / 720 + r * (1.0f / 5040);
    series = 1.0f / 120 + r * series;
    series = 1.0f / 24 + r * series;
    series = 1.0f / 6 + r * series;
    series = 0.5f + r * series;
    series = r + r * r * series;
    float power = from_bits((to_bits(shifted) + 127) << 23);
    return power * series + (power - 1.0f);
}

INLINE float tanh_of(float x) {
    float e = exp_less_1(2 * x);
    return e / (e + 2);
}

struct forward {
    int64_t n, z;
    const void *product, *input;
    const int64_t *rows;
    const float *before;
    float *gates, *cell;
    void *gated;
    float clip;
    int low;
};

/* `saved` are the gates that the gradient needs; `gated` is sigmoid(o) tanh(c). */
INLINE void forward_row(int64_t first, int64_t last, int64_t z, const void *product,
                        const void *input, const float *before, float *saved, float *cell,
                        void *gated, float clip, int low, int saves) {
    APART
    for (int64_t k = first; k < last; k++) {
        float i = get(product, k, low) + get(input, k, low);
        float j = get(product, z + k, low) + get(input, z + k, low);
        float f = get(product, 2 * z + k, low) + get(input, 2 * z + k, low);
        float o = get(product, 3 * z + k, low) + get(input, 3 * z + k, low);
        /* A division is dear: two gates share one. */
        float e = exp_less_1(2 * j), below_i = 2 + exp_less_1(-i), below_j = e + 2;
        float share = 1 / (below_i * below_j);
        i = share * below_j, j = e * (share * below_i);
        float below_f = 2 + exp_less_1(-f), below_o = 2 + exp_less_1(-o);
        share = 1 / (below_f * below_o);
        f = share * below_o, o = share * below_f;
        float c = clipped(f * before[k] + i * j, clip);
        if (saves) {
            saved[k] = i, saved[z + k] = j, saved[2 * z + k] = f, saved[3 * z + k] = o;
        }
        cell[k] = c;
        put(gated, k, low, o * tanh_of(c));
    }
}

INLINE void forward_rows(const struct forward *a, int64_t first, int64_t last, int low, int saves) {
    for (int64_t row = 0; row < a->n; row++) {
        int64_t z = a->z, from = a->rows ? a->rows[row] : row;
        forward_row(first, last, z, at(a->product, row * 4 * z, low), at(a->input, from * 4 * z, low),
                    a->before + row * z, saves ? a->gates + row * 4 * z : 0, a->cell + row * z,
                    (void *)at(a->gated, row * z, low), a->clip, low, saves);
    }
}

CLONES static void forward_part(const void *of, int64_t first, int64_t last) {
    const struct forward *a = of;
    if (a->low && a->gates) forward_rows(a, first, last, 1, 1);
    if (a->low && !a->gates) forward_rows(a, first, last, 1, 0);
    if (!a->low && a->gates) forward_rows(a, first, last, 0, 1);
    if (!a->low && !a->gates) forward_rows(a, first, last, 0, 0);
}

void elmo_step_forward(int64_t n, int64_t z, const void *product, const void *input,
                       const int64_t *rows, const float *before, float *gates, float *cell,
                       void *gated, float clip, int low, int64_t threads) {
    struct forward a = {n, z, product, input, rows, before, gates, cell, gated, clip, low};
    parallel(forward_part, &a, z, 4 * n * z, threads);
}

struct backward {
    int64_t n, z;
    const float *gates, *cell, *before;
    const void *grad_gated;
    float *grad_cell;
    void *grad_gates, *gated;
    float *grad_bias;
    float clip;
    int low;
};

INLINE void backward_row(int64_t first, int64_t last, int64_t z, const float *gates,
                         const float *cell, const float *before, const void *grad_gated,
                         float *grad_cell, void *grad_gates, void *gated, float *grad_bias,
                         float clip, int low) {
    APART
    for (int64_t k = first; k < last; k++) {
        float i = gates[k], j = gates[z + k], f = gates[2 * z + k], o = gates[3 * z + k];
        float c = cell[k], squashed = tanh_of(c), through = squashed * o;
        float grad_through = get(grad_gated, k, low);
        float grad = grad_cell[k] + grad_through * (o - through * squashed);
        grad = c < clip && c > -clip ? grad : 0;
        float grad_i = grad * j * (i * (1 - i)), grad_j = grad * i * (1 - j * j);
        float grad_f = grad * before[k] * (f * (1 - f));
        float grad_o = grad_through * squashed * (o * (1 - o));
        put(gated, k, low, through);
        put(grad_gates, k, low, grad_i), put(grad_gates, z + k, low, grad_j);
        put(grad_gates, 2 * z + k, low, grad_f), put(grad_gates, 3 * z + k, low, grad_o);
        grad_bias[k] += grad_i, grad_bias[z + k] += grad_j;
        grad_bias[2 * z + k] += grad_f, grad_bias[3 * z + k] += grad_o;
        grad_cell[k] = grad * f;
    }
}

INLINE void backward_rows(const struct backward *a, int64_t first, int64_t last, int low) {
    for (int64_t row = 0; row < a->n; row++) {
        int64_t z = a->z;
        backward_row(first, last, z, a->gates + row * 4 * z, a->cell + row * z, a->before + row * z,
                     at(a->grad_gated, row * z, low), a->grad_cell + row * z,
                     (void *)at(a->grad_gates, row * 4 * z, low),
                     (void *)at(a->gated, row * z, low), a->grad_bias, a->clip, low);
    }
}

CLONES static void backward_part(const void *of, int64_t first, int64_t last) {
    const struct backward *a = of;
    if (a->low) backward_rows(a, first, last, 1);
    else backward_rows(a, first, last, 0);
}

void elmo_step_backward(int64_t n, int64_t z, const float *gates, const float *cell,
                        const float *before, const void *grad_gated, float *grad_cell,
                        void *grad_gates, void *gated, float *grad_bias, float clip, int low,
                        int64_t threads) {
    struct backward a = {n,         z,          gates, cell,      before, grad_gated,
                         grad_cell, grad_gates, gated, grad_bias, clip,   low};
    parallel(backward_part, &a, z, 4 * n * z, threads);
}

/* A convolution over characters has few different inputs: `table` holds, for each character and each
   of the filters' taps, its weights times the character's vector. So an output is a sum of rows. */
struct lookup {
    int64_t n, width, taps, f;
    const int64_t *chars;
    const float *table;
    float *highest;
    int32_t *where;
};

/* The highest sum over all places for `many` filters; where, if asked. */
INLINE void look_up(const int64_t *chars, int64_t places, int64_t taps, int64_t f,
                    const float *table, float *highest, int32_t *where, int64_t many) {
    float best[WIDE], sum[WIDE];
    int32_t at_place[WIDE];
    for (int64_t k = 0; k < many; k++) best[k] = 0, at_place[k] = 0;
    for (int64_t place = 0; place < places; place++) {
        for (int64_t k = 0; k < many; k++) sum[k] = 0;
        for (int64_t tap = 0; tap < taps; tap++) {
            const float *row = table + (chars[place + tap] * taps + tap) * f;
            APART
            for (int64_t k = 0; k < many; k++) sum[k] += row[k];
        }
        APART
        for (int64_t k = 0; k < many; k++) {
            /* what is no number is the highest, and stays so */
            int higher = !place | ((best[k] == best[k]) & !(sum[k] <= best[k]));
            best[k] = higher ? sum[k] : best[k];
            at_place[k] = higher ? (int32_t)place : at_place[k];
        }
    }
    memcpy(highest, best, (size_t)many * sizeof *best);
    if (where) memcpy(where, at_place, (size_t)many * sizeof *where);
}

CLONES static void lookup_part(const void *of, int64_t first, int64_t last) {
    const struct lookup *a = of;
    for (int64_t row = first; row < last; row++) {
        const int64_t *chars = a->chars + row * a->width;
        /* A word ends in pad characters: one place of nothing else stands for all. */
        int64_t length = a->width, places = a->width - a->taps + 1;
        while (length && chars[length - 1] == chars[a->width - 1]) length--;
        places = length + 1 < places ? length + 1 : places;
        for (int64_t start = 0; start < a->f; start += WIDE) {
            int64_t many = a->f - start, to = row * a->f + start;
            int32_t *where = a->where ? a->where + to : 0;
            const float *table = a->table + start;
            float *highest = a->highest + to;
            if (many >= WIDE) look_up(chars, places, a->taps, a->f, table, highest, where, WIDE);
            else look_up(chars, places, a->taps, a->f, table, highest, where, many);
        }
    }
}

void elmo_lookup(int64_t n, int64_t width, int64_t taps, int64_t f, const int64_t *chars,
                 const float *table, float *highest, int32_t *where, int64_t threads) {
    struct lookup a = {n, width, taps, f, chars, table, highest, where};
    parallel(lookup_part, &a, n, n * f * taps * 8, threads);
}

struct lookup_gradient {
    int64_t n, width, taps, f;
    const int64_t *chars;
    const int32_t *where;
    const float *grad;
    float *grad_table;
};

CLONES static void lookup_gradient_part(const void *of, int64_t first, int64_t last) {
    const struct lookup_gradient *a = of;
    for (int64_t row = 0; row < a->n; row++) {
        const int64_t *chars = a->chars + row * a->width;
        const int32_t *where = a->where + row * a->f;
        const float *grad = a->grad + row * a->f;
        for (int64_t k = first; k < last; k++)
            for (int64_t tap = 0; tap < a->taps; tap++)
                a->grad_table[(chars[where[k] + tap] * a->taps + tap) * a->f + k] += grad[k];
    }
}

void elmo_lookup_gradient(int64_t n, int64_t width, int64_t taps, int64_t f, const int64_t *chars,
                          const int32_t *where, const float *grad, float *grad_table,
                          int64_t threads) {
    struct lookup_gradient a = {n, width, taps, f, chars, where, grad, grad_table};
    parallel(lookup_gradient_part, &a, f, n * f * taps, threads);
}

int elmo_native_version(void) { return 2; }
