struct block {
    half d;
    half m;
    uchar qs[4];
};
