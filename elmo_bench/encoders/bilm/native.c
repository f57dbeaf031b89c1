/* What torch does in many passes over memory, in one: the arithmetic of an LSTM's step between its
   products.

   Built where a C compiler is at hand; `pointwise.py` has the same in torch. No header of Python or
   torch is needed: it is called with addresses, and without Python's lock.

   Axes: n rows, z cells. Gates are i, j, f, o, each z wide. A "low" array holds bfloat16, any other
   float32; all are dense, row after row. */

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

#define LEAST 16384 /* numbers that are worth another thread */
#define BLOCK 16    /* columns are handed out by so many: a line of a cache */

/* A step of n rows and z cells; `arrays` has what `pointwise.py` lists, in its order. */
struct step {
    int64_t n, z;
    void *const *arrays;
    float clip;
    int low, backward;
};

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

INLINE void forward_rows(const struct step *a, int64_t first, int64_t last, int low, int saves) {
    int64_t z = a->z;
    float clip = a->clip;
    for (int64_t row = 0; row < a->n; row++) {
        const void *product = at(a->arrays[0], row * 4 * z, low);
        const void *input = at(a->arrays[1], row * 4 * z, low);
        const float *before = (const float *)a->arrays[2] + row * z;
        float *saved = saves ? (float *)a->arrays[3] + row * 4 * z : 0;
        float *cell = (float *)a->arrays[4] + row * z;
        void *gated = (void *)at(a->arrays[5], row * z, low);
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
}

INLINE void backward_rows(const struct step *a, int64_t first, int64_t last, int low) {
    int64_t z = a->z;
    float clip = a->clip;
    for (int64_t row = 0; row < a->n; row++) {
        const float *gates = (const float *)a->arrays[0] + row * 4 * z;
        const float *cell = (const float *)a->arrays[1] + row * z;
        const float *before = (const float *)a->arrays[2] + row * z;
        const void *grad_gated = at(a->arrays[3], row * z, low);
        float *grad_cell = (float *)a->arrays[4] + row * z;
        void *grad_gates = (void *)at(a->arrays[5], row * 4 * z, low);
        void *gated = (void *)at(a->arrays[6], row * z, low);
        APART
        for (int64_t k = first; k < last; k++) {
            float i = gates[k], j = gates[z + k], f = gates[2 * z + k], o = gates[3 * z + k];
            float c = cell[k], squashed = tanh_of(c), through = squashed * o;
            float grad_through = get(grad_gated, k, low);
            float grad = grad_cell[k] + grad_through * (o - through * squashed);
            grad = c < clip && c > -clip ? grad : 0;
            put(gated, k, low, through);
            put(grad_gates, k, low, grad * j * (i * (1 - i)));
            put(grad_gates, z + k, low, grad * i * (1 - j * j));
            put(grad_gates, 2 * z + k, low, grad * before[k] * (f * (1 - f)));
            put(grad_gates, 3 * z + k, low, grad_through * squashed * (o * (1 - o)));
            grad_cell[k] = grad * f;
        }
    }
}

/* The columns from `first` to `last` of all rows: a loop for each kind of step. */
CLONES static void columns(const struct step *a, int64_t first, int64_t last) {
    if (a->backward && a->low) backward_rows(a, first, last, 1);
    else if (a->backward) backward_rows(a, first, last, 0);
    else if (a->low && a->arrays[3]) forward_rows(a, first, last, 1, 1);
    else if (a->low) forward_rows(a, first, last, 1, 0);
    else if (a->arrays[3]) forward_rows(a, first, last, 0, 1);
    else forward_rows(a, first, last, 0, 0);
}

/* torch's own threads, where it has OpenMP: a second pool beside it would fight for the cores. */
#if defined(__ELF__)
extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_get_num_threads(void) __attribute__((weak));

static void share(void *given) {
    const struct step *a = given;
    int64_t number = omp_get_thread_num(), threads = omp_get_num_threads();
    int64_t blocks = (a->z + BLOCK - 1) / BLOCK;
    int64_t first = blocks * number / threads * BLOCK;
    int64_t last = blocks * (number + 1) / threads * BLOCK;
    last = last < a->z ? last : a->z;
    if (first < last) columns(a, first, last);
}
#endif

void elmo_step(int64_t n, int64_t z, void *const *arrays, float clip, int low, int backward,
               int64_t threads) {
    struct step a = {n, z, arrays, clip, low, backward};
    if (threads > 4 * n * z / LEAST) threads = 4 * n * z / LEAST;
#if defined(__ELF__)
    if (threads > 1 && GOMP_parallel && omp_get_thread_num && omp_get_num_threads) {
        GOMP_parallel(share, &a, (unsigned)threads, 0);
        return;
    }
#endif
    columns(&a, 0, z);
}

int elmo_native_version(void) { return 1; }
